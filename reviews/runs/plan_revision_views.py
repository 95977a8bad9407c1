"""A change of a run's plan."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from reviews.components.views import page, visible_execution
from reviews.runs.plan_revision_page import revision_context
from workflows.models import PlanRevision


@login_required
@require_safe
def plan_change(request: HttpRequest, execution_id: int, number: int) -> HttpResponse:
    """What revision `number` changed, as a picture and as a list."""
    execution = visible_execution(request, execution_id)
    try:
        context = {"c": revision_context(execution, number)}
    except PlanRevision.DoesNotExist:
        raise Http404 from None
    return page(request, "reviews/runs/plan_change.html", context, section="runs")
