"""Admin of MCP servers."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.translation import gettext_lazy

from workflows.executions.validation import InvalidRequest
from workflows.models import McpServer
from workflows.permissions import step_up
from workflows.planning.planner import tools_of_server
from workflows.tools import catalogue_sync, mcp_servers
from workflows.tools.server_form import McpServerForm, import_text


@admin.register(McpServer)
class McpServerAdmin(admin.ModelAdmin[McpServer]):
    """Servers, and an action that synchronizes their tools."""

    empty_text = gettext_lazy(
        "An MCP server offers tools to plans and gates: add one, or import its JSON, then "
        "synchronize its tools."
    )
    form = McpServerForm
    list_display = ("name", "transport", "enabled", "synced_at", "sync_error")
    list_filter = ("transport", "enabled")
    search_fields = ("name", "command", "url")
    readonly_fields = ("synced_at", "sync_error", "env_names", "header_names")
    actions = ("sync_tools",)

    def get_fields(self, request: HttpRequest, obj: McpServer | None = None) -> list[Any]:
        """Show only the names of variables and headers to users who cannot change the server."""
        env, headers = "env", "headers"
        if not self.has_change_permission(request, obj) and obj is not None:
            env, headers = "env_names", "header_names"
        known = [
            "name",
            "enabled",
            "transport",
            "command",
            "args",
            env,
            "read_paths",
            "write_paths",
            "tcp_ports",
            "url",
            headers,
        ]
        return [*known, "synced_at", "sync_error"] if obj is not None else known

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Pass the user's rights to the form: a stdio server runs a command."""
        form: Any = super().get_form(request, *args, **kwargs)
        form.is_superuser = request.user.is_superuser
        form.confirmed = step_up.is_recent(step_up.confirmed_at(request))
        return form

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Show the form again if another request has stored the name since it was checked."""
        try:
            return super().changeform_view(request, *args, **kwargs)
        except InvalidRequest as invalid:
            text = "; ".join(f"{each.path}: {each.message}" for each in invalid.problems)
            self.message_user(request, text, messages.ERROR)
            return HttpResponseRedirect(request.path)

    def save_model(self, request: HttpRequest, obj: McpServer, form: Any, change: Any) -> None:
        """Save through the use case of the REST API; the sweeper synchronizes a new server."""
        user: Any = request.user
        obj.pk = form.save_for(user).pk
        obj.refresh_from_db()

    def delete_model(self, request: HttpRequest, obj: McpServer) -> None:
        user: Any = request.user
        mcp_servers.delete_server(actor=user, server=obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[McpServer]) -> None:
        for server in queryset:
            self.delete_model(request, server)

    # The use cases have logged the change.

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return None

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return None

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        return None

    # --- import, test, tools ----------------------------------------------------------------------

    def get_urls(self) -> list[Any]:
        """Add the pages that import servers and test one."""
        view = self.admin_site.admin_view
        return [
            path("import/", view(self.import_view), name="workflows_mcpserver_import"),
            path("<int:pk>/test/", view(self.test_view), name="workflows_mcpserver_test"),
            *super().get_urls(),
        ]

    def import_view(self, request: HttpRequest) -> HttpResponse:
        """Create the servers of a `mcpServers` object."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        text = request.POST.get("json", "")
        errors: tuple[str, ...] = ()
        if request.method == "POST":
            user: Any = request.user
            confirmed = step_up.is_recent(step_up.confirmed_at(request))
            made, errors = import_text(actor=user, text=text, confirmed=confirmed)
            if not errors:
                names = ", ".join(server.name for server in made)
                self.message_user(request, f"Imported: {names}.", messages.SUCCESS)
                return HttpResponseRedirect(reverse("admin:workflows_mcpserver_changelist"))
        context = {
            **self.admin_site.each_context(request),
            "title": "Import MCP servers",
            "opts": McpServer._meta,
            "json": text,
            "errors": errors,
        }
        status = 422 if errors else 200
        return TemplateResponse(
            request, "admin/workflows/mcpserver/import.html", context, status=status
        )

    def test_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Connect to a server, read its tools, and report the result on its page."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        server = self.get_object(request, str(pk))
        if not self.has_change_permission(request, server):
            raise PermissionDenied
        if server is None:
            raise Http404
        self._report(request, catalogue_sync.sync_server(server))
        return HttpResponseRedirect(reverse("admin:workflows_mcpserver_change", args=(pk,)))

    def _report(self, request: HttpRequest, synced: catalogue_sync.SyncResult) -> None:
        if synced.error:
            text = f"Could not read {synced.server}: {synced.error}"
            self.message_user(request, text, messages.ERROR)
        else:
            text = f"Read {synced.tools} tools of {synced.server}."
            self.message_user(request, text, messages.SUCCESS)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add the server's tools, each with a link to its marks."""
        server = kwargs.get("obj")
        if server is not None:
            context["tools"] = tools_of_server(server.name)
            context["tools_url"] = (
                reverse("admin:graphrag_tool_changelist") + f"?server__exact={server.name}"
            )
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description="env")
    def env_names(self, server: McpServer) -> str:
        return ", ".join(server.env) or "-"

    @admin.display(description="headers")
    def header_names(self, server: McpServer) -> str:
        return ", ".join(server.headers) or "-"

    @admin.action(description="Sync tools now", permissions=["change"])
    def sync_tools(self, request: HttpRequest, queryset: QuerySet[McpServer]) -> None:
        """Synchronize the tools of the selected servers into the catalogue."""
        for server in queryset:
            self._report(request, catalogue_sync.sync_server(server))
