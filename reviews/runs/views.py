"""Runs: the list, and one run as it is watched."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from reviews.components.views import (
    fragment,
    good_cursor,
    is_htmx,
    page,
    person,
    text_of,
    visible_execution,
)
from reviews.runs.list_page import runs_context
from reviews.runs.page import run_context


@login_required
@require_safe
def runs(request: HttpRequest) -> HttpResponse:
    """The newest runs first."""
    with good_cursor():
        context = runs_context(
            person(request),
            q=text_of(request, "q"),
            status=request.GET.get("status", ""),
            cursor=request.GET.get("cursor", ""),
        )
    if is_htmx(request):
        return fragment(request, "reviews/runs/_rows.html", context)
    return page(request, "reviews/runs/runs.html", context, section="runs")


@login_required
@require_safe
def run(request: HttpRequest, execution_id: int) -> HttpResponse:
    """One run; asked for by htmx, the part that changes."""
    execution = visible_execution(request, execution_id)
    context: dict[str, Any] = {"run": run_context(person(request), execution)}
    if is_htmx(request):
        # The actions hold what somebody is typing: they are sent again only when others are due.
        context["new_actions"] = request.GET.get("offers", "") != context["run"]["offers"]
        return fragment(request, "reviews/runs/_news.html", context)
    return page(request, "reviews/runs/run.html", context, section="runs")
