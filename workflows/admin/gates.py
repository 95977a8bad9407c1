"""Admin of MCP gates; their calls are in `reviews.admin.gate_calls`."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy

from workflows import conf
from workflows.mcp_gate.policies import tool_infos
from workflows.models import Gate, GateTool, McpServer
from workflows.planning.planner import tools_of_server


class GateForm(forms.ModelForm[Gate]):
    """A gate; its servers and groups are few, so they are listed."""

    class Meta:
        model = Gate
        fields = ("name", "description", "enabled", "servers", "groups")
        widgets = {
            "description": forms.Textarea(attrs={"rows": 2}),
            "servers": forms.CheckboxSelectMultiple,
            "groups": forms.CheckboxSelectMultiple,
        }


class GateToolForm(forms.ModelForm[GateTool]):
    """The policy of a tool that the catalogue has."""

    class Meta:
        model = GateTool
        fields = ("tool", "policy")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = [name for row in McpServer.objects.all() for name in tools_of_server(row.name)]
        known = dict.fromkeys([*filter(None, [self.instance.tool]), *names])
        self.fields["tool"] = forms.ChoiceField(
            choices=[("", "---------"), *((name, name) for name in known)]
        )


class GateToolInline(admin.StackedInline[GateTool, Gate]):
    """The policies of single tools; who changes the gate changes them."""

    model = GateTool
    form = GateToolForm
    extra = 1

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("workflows.view_gate")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("workflows.change_gate")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("workflows.change_gate")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("workflows.change_gate")


@admin.register(Gate)
class GateAdmin(admin.ModelAdmin[Gate]):
    """The gates, with the policy of each tool."""

    empty_text = gettext_lazy(
        "An MCP gate lets people review the tool calls of an agent: add one, choose its "
        "servers, and connect the agent to the address of the gate."
    )
    form = GateForm
    inlines = (GateToolInline,)
    list_display = ("name", "server_names", "enabled", "created_at")
    list_filter = ("enabled",)
    search_fields = ("name", "description")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Gate]:
        return super().get_queryset(request).prefetch_related("servers")

    @admin.display(description="servers")
    def server_names(self, gate: Gate) -> str:
        return ", ".join(server.name for server in gate.servers.all())

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add the gate's address, and its tools with the policy that each has now."""
        gate = kwargs.get("obj")
        if gate is not None:
            names = [name for row in gate.servers.all() for name in tools_of_server(row.name)]
            context["address"] = f"{conf.site_url().rstrip('/')}/mcp/gate/{gate.name}/"
            context["tools"] = list(tool_infos(gate, names).values())
        return super().render_change_form(request, context, *args, **kwargs)
