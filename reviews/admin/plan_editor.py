"""Workflows as pages of the admin: the plan editor, plans from words, and versions."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.mixins import PermissionRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from reviews.authoring.editor_views import EditorView
from reviews.authoring.version_pages import RestoreView, VersionsView
from reviews.authoring.views import PlannerView
from workflows.models import Workflow

_WORKFLOW = "admin:workflows_workflow_change"
_RUN = "admin:workflows_execution_change"
_VERSIONS = "admin:workflows_workflow_versions"


def _page(
    request: HttpRequest, name: str, title: str, context: dict[str, Any], status: int
) -> HttpResponse:
    context |= {**admin.site.each_context(request), "title": title, "opts": Workflow._meta}
    template = f"admin/workflows/workflow/{name}.html"
    return TemplateResponse(request, template, context, status=status)


class AdminEditor(EditorView):
    """The desk's editor and checks; a save and a start lead to pages of the admin."""

    editor_url = "admin:workflows_workflow_editor"
    workflow_url = _WORKFLOW
    run_url = _RUN
    versions_url = _VERSIONS

    def page(self, request: HttpRequest, context: dict[str, Any], status: int) -> HttpResponse:
        return _page(request, "editor", _("Plan editor"), context, status)


class AdminPlanner(PlannerView):
    """The desk's plans from words; a save, a start and the editor stay in the admin."""

    planner_url = "admin:workflows_workflow_planner"
    workflow_url = _WORKFLOW
    run_url = _RUN
    versions_url = _VERSIONS
    editor = AdminEditor

    def page(self, request: HttpRequest, context: dict[str, Any], status: int) -> HttpResponse:
        return _page(request, "planner", _("Describe a task"), context, status)


class AdminVersions(PermissionRequiredMixin, VersionsView):
    """The desk's page of a workflow's versions, for users who may see workflows in the admin."""

    permission_required = "workflows.view_workflow"
    versions_url = _VERSIONS
    workflow_url = _WORKFLOW
    restore_url = "admin:workflows_workflow_restore"

    def page(self, request: HttpRequest, context: dict[str, Any], status: int) -> HttpResponse:
        return _page(request, "versions", _("Versions"), context, status)


class AdminRestore(AdminVersions, RestoreView):
    """Save an older version as the newest one."""
