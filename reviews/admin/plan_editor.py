"""The plan editor inside the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from reviews.planner.editor_views import EditorView
from workflows.models import Workflow


class AdminEditor(EditorView):
    """The desk's editor and checks; a save and a start lead to pages of the admin."""

    editor_url = "admin:workflows_workflow_editor"
    workflow_url = "admin:workflows_workflow_change"
    run_url = "admin:workflows_execution_change"

    def page(self, request: HttpRequest, context: dict[str, Any], status: int) -> HttpResponse:
        context |= {
            **admin.site.each_context(request),
            "title": _("Plan editor"),
            "opts": Workflow._meta,
        }
        template = "admin/workflows/workflow/editor.html"
        return TemplateResponse(request, template, context, status=status)
