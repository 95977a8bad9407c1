"""Pages of MCP servers: the list, a new server, an import, and one server with its tools."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from graphrag.catalogue.selectors import servers as tool_counts
from graphrag.catalogue.selectors import tools as all_tools
from reviews.components.admin_rights import check, may
from reviews.components.number_formatting import counted
from reviews.components.views import SeeOther, current_user, page
from workflows.executions.validation import InvalidRequest
from workflows.models import McpServer
from workflows.permissions import step_up
from workflows.tools import catalogue_sync, mcp_servers
from workflows.tools.server_form import McpServerForm, import_text

_SECTION: Final = "tools"
_LIST, _EDIT, _IMPORT = (f"reviews/servers/{name}.html" for name in ("servers", "server", "import"))


def _url(server: McpServer) -> str:
    return reverse("reviews:server", args=(server.pk,))


def _form(request: HttpRequest, server: McpServer | None, *, submitted: bool) -> McpServerForm:
    form = McpServerForm(request.POST if submitted else None, instance=server)
    form.is_superuser = current_user(request).is_superuser
    form.confirmed = step_up.is_recent(step_up.confirmed_at(request))
    return form


def _state(server: McpServer) -> dict[str, str]:
    if not server.enabled:
        return {"look": "SKIPPED", "word": _("disabled")}
    if server.sync_error:
        return {"look": "FAILED", "word": _("not reachable")}
    if server.synced_at is None:
        return {"look": "PENDING", "word": _("not read yet")}
    return {"look": "COMPLETED", "word": _("connected")}


@login_required
@require_safe
def servers(request: HttpRequest) -> HttpResponse:
    """List the servers."""
    check(request, "view", McpServer)
    counts = tool_counts()
    rows = [
        {
            "server": each,
            "url": _url(each),
            "tools": counted(counts.get(each.name, 0), "tool"),
            **_state(each),
        }
        for each in McpServer.objects.all()
    ]
    context = {"rows": rows, "may_add": may(request, "add", McpServer)}
    return page(request, _LIST, context, section=_SECTION)


@sensitive_post_parameters()
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def add_server(request: HttpRequest) -> HttpResponse:
    """Add a server, and read its tools."""
    check(request, "add", McpServer)
    submitted = request.method == "POST"
    form = _form(request, None, submitted=submitted)
    server = _saved(request, form) if submitted else None
    if server is None:
        status = 422 if submitted else 200
        return page(request, _EDIT, {"form": form}, section=_SECTION, status=status)
    messages.success(request, _("Added %(name)s.") % {"name": server.name})
    return SeeOther(_url(server))


@sensitive_post_parameters()
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def import_servers(request: HttpRequest) -> HttpResponse:
    """Create the servers of a `mcpServers` object, as other MCP clients write it."""
    check(request, "add", McpServer)
    text, errors = request.POST.get("json", ""), tuple[str, ...]()
    if request.method == "POST":
        confirmed = step_up.is_recent(step_up.confirmed_at(request))
        made, errors = import_text(actor=current_user(request), text=text, confirmed=confirmed)
        if not errors:
            names = ", ".join(server.name for server in made)
            messages.success(request, _("Imported: %(names)s.") % {"names": names})
            return SeeOther(reverse("reviews:servers"))
    context = {"json": text, "errors": errors}
    return page(request, _IMPORT, context, section=_SECTION, status=422 if errors else 200)


@sensitive_post_parameters()
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def server(request: HttpRequest, server_id: int) -> HttpResponse:
    """Show a server with its tools; a POST runs the action of a button."""
    check(request, "view", McpServer)
    found = get_object_or_404(McpServer, pk=server_id)
    if request.method != "POST":
        form = _form(request, found, submitted=False) if may(request, "change", McpServer) else None
        return _page(request, found, form)
    action = request.POST.get("do", "")
    if action == "delete":
        check(request, "delete", McpServer)
        mcp_servers.delete_server(actor=current_user(request), server=found)
        messages.success(request, _("Removed %(name)s.") % {"name": found.name})
        return SeeOther(reverse("reviews:servers"))
    check(request, "change", McpServer)
    if action == "sync":
        _sync(request, found)
        return SeeOther(_url(found))
    form = _form(request, found, submitted=True)
    if _saved(request, form) is None:
        found.refresh_from_db()
        return _page(request, found, form, status=422)
    messages.success(request, _("Saved."))
    return SeeOther(_url(found))


def _saved(request: HttpRequest, form: McpServerForm) -> McpServer | None:
    """Save the server; None if the form has errors, such as a name that was taken meanwhile."""
    if not form.is_valid():
        return None
    try:
        return form.save_for(current_user(request))
    except InvalidRequest as invalid:
        for problem in invalid.problems:
            form.add_error(problem.path, problem.message)
        return None


def _sync(request: HttpRequest, server: McpServer) -> None:
    synced = catalogue_sync.sync_server(server)
    if synced.error:
        text = _("Could not read %(name)s: %(error)s")
        messages.error(request, text % {"name": synced.server, "error": synced.error})
        return
    tools = counted(synced.tools, "tool")
    text = _("Read %(tools)s of %(name)s.")
    messages.success(request, text % {"tools": tools, "name": synced.server})


def _page(
    request: HttpRequest, server: McpServer, form: McpServerForm | None, *, status: int = 200
) -> HttpResponse:
    context: dict[str, Any] = {
        "server": server,
        "form": form,
        **_state(server),
        "env_names": ", ".join(server.env),
        "header_names": ", ".join(server.headers),
        "tools": all_tools().filter(server=server.name, vanished=False),
        "may_delete": may(request, "delete", McpServer),
    }
    return page(request, _EDIT, context, section=_SECTION, status=status)
