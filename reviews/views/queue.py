"""The queue, and one review beside it."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from reviews import selectors, services
from reviews.filters import parse_queue_filters
from reviews.pages.decision import decision_context
from reviews.pages.queue import Changed, controls_context, rows_context
from workflows.access import knowing_groups

from .common import good_cursor, is_htmx, page, person


@login_required
@require_safe
def queue(request: HttpRequest) -> HttpResponse:
    """Tabs and rows; with `?hold=` that review at the side.

    The rows alone are for pages that are open: with `changed` (ids of runs, parted by commas) and
    `until` (the cursor at the page's end) those of these runs that belong there.
    """
    viewer = selectors.Viewer(knowing_groups(person(request)))
    is_rows = is_htmx(request) and request.headers.get("HX-Target") == "queue-list"
    tab, filters = request.GET.get("tab", "me"), parse_queue_filters(request.GET)
    with good_cursor():
        context = rows_context(
            viewer,
            tab=tab,
            filters=filters,
            cursor=request.GET.get("cursor", ""),
            changed=Changed.of(request.GET) if is_rows else None,
        )
    context["open_hold"] = request.GET.get("hold", "")
    if is_rows:
        parts = [
            render_to_string(f"reviews/{name}.html", context, request)
            for name in ("_queue_tabs", "_queue_list")
        ]
        response = HttpResponse("".join(parts))
        response["Vary"] = "HX-Request, Cookie"
        response["Cache-Control"] = "no-store"
        return response
    context |= controls_context(viewer, tab=tab, filters=filters)
    context["d"] = _open(viewer, context["open_hold"])
    return page(request, "reviews/queue.html", context, section="review")


def _open(viewer: selectors.Viewer, hold_id: str) -> object:
    if not hold_id or "\0" in hold_id:
        return None
    try:
        return decision_context(viewer.user, services.visible_hold(viewer.user, hold_id))
    except services.HoldNotFound:
        return None
