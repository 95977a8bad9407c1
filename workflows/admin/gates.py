"""Admin of MCP gates, which are editable, and of their calls, which are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from workflows import conf
from workflows.common.redaction import mask_secrets
from workflows.mcp_gate.policies import tool_infos
from workflows.models import Approval, Gate, GateCall, GateTool, McpServer
from workflows.planning.planner import tools_of_server

from .read_only import ReadOnly, link

if TYPE_CHECKING:
    Base = admin.ModelAdmin[Gate]
    InlineBase = admin.StackedInline[GateTool, Gate]
    GateFormBase = forms.ModelForm[Gate]
    ToolFormBase = forms.ModelForm[GateTool]
else:
    Base = admin.ModelAdmin
    InlineBase = admin.StackedInline
    GateFormBase = forms.ModelForm
    ToolFormBase = forms.ModelForm


class GateForm(GateFormBase):
    """A gate; its servers and groups are few, so they are listed."""

    class Meta:
        model = Gate
        fields = ("name", "description", "enabled", "servers", "groups")
        widgets = {
            "description": forms.Textarea(attrs={"rows": 2}),
            "servers": forms.CheckboxSelectMultiple,
            "groups": forms.CheckboxSelectMultiple,
        }


class GateToolForm(ToolFormBase):
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


class GateToolInline(InlineBase):
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
class GateAdmin(Base):
    """The gates, with the policy of each tool."""

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


@admin.register(GateCall)
class GateCallAdmin(ReadOnly):
    """Calls through gates: who asked for what, what was sent, and how it was answered."""

    list_display = ("tool", "gate", "user", "client", "policy", "outcome", "created_at")
    list_filter = ("gate", "policy", "outcome")
    list_select_related = ("gate", "user")
    search_fields = ("tool", "client", "uid")
    fields = (
        "tool", "gate", "user", "token", "client", "policy", "run", "questions", "uid",
        "arguments_digest", "created_at", "not_sent_at", "sent_at", "sent_digest", "answered_at",
        "outcome", "answer_digest", "shown_error", "closed_at",
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[GateCall]:
        """Return all calls: only roles that see every run have the permission."""
        return GateCall.objects.select_related("approval")

    @admin.display(description="run")
    def run(self, row: GateCall) -> SafeString | str:
        if row.approval is None:
            return "-"
        run = row.approval.execution_id
        return link(str(run), "reviews:run", run)

    @admin.display(description="questions of the server")
    def questions(self, row: GateCall) -> SafeString | str:
        """Link the runs in which people answered the server during the call."""
        rows = Approval.objects.filter(owner=row.user_id, session=row.session).order_by("pk")
        runs = rows.values_list("execution_id", flat=True)
        links = [(link(str(run), "reviews:run", run),) for run in runs]
        return format_html_join(", ", "{}", links) if links else "-"

    @admin.display(description="error")
    def shown_error(self, row: GateCall) -> str:
        return mask_secrets(row.error)
