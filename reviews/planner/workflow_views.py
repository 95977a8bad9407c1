"""Workflows: the list and one definition."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from reviews.backtests.rules_page import rules_summary
from reviews.components.views import page, person
from reviews.planner.workflows_page import workflow_context, workflows_context
from reviews.runs.list_page import starter
from workflows.executions.access import may_start
from workflows.models import Workflow


@login_required
@require_safe
def workflows(request: HttpRequest) -> HttpResponse:
    """What can be run."""
    context = workflows_context(person(request))
    return page(request, "reviews/planner/workflows.html", context, section="workflows")


@login_required
@require_safe
def workflow(request: HttpRequest, workflow_id: int) -> HttpResponse:
    """One definition, with the form that starts it."""
    found = get_object_or_404(Workflow, pk=workflow_id, enabled=True)
    user = person(request)
    context = {
        "workflow": workflow_context(user, found),
        "starter": starter(found) if may_start(user) else None,
        "rules": rules_summary(user, found),
    }
    return page(request, "reviews/planner/workflow.html", context, section="workflows")
