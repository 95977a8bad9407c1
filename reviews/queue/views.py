"""The queue, and one review beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from reviews.components.views import good_cursor, is_htmx, page, person
from reviews.decisions import services
from reviews.decisions.page import decision_context
from reviews.queue import selectors
from reviews.queue.filters import parse_queue_filters
from reviews.queue.page import Changed, controls_context, rows_context, tabs_context


@login_required
@require_safe
def queue(request: HttpRequest) -> HttpResponse:
    """Tabs and rows; with `?hold=` that review at the side.

    Parts alone are for pages that are open, and HX-Target names them: `queue-list` the rows, and
    the tabs with them; with `changed` (ids of runs, parted by commas) and `until` (the cursor at
    the page's end) those rows of these runs that belong there, and nothing else, because somebody
    waits for them.  `queue-tabs` is the tabs, for the numbers, which may come a moment later.
    """
    viewer = selectors.Viewer(person(request))
    tab, filters = request.GET.get("tab", "me"), parse_queue_filters(request.GET)
    target = request.headers.get("HX-Target", "") if is_htmx(request) else ""
    if target == "queue-tabs":
        return _parts(request, ("_tabs",), tabs_context(viewer, tab=tab, filters=filters))
    changed = None
    with good_cursor():
        if target == "queue-list":
            changed = Changed.of(request.GET)
        cursor = request.GET.get("cursor", "")
        context = rows_context(viewer, tab=tab, filters=filters, cursor=cursor, changed=changed)
    context["open_hold"] = request.GET.get("hold", "")
    if changed:
        return _parts(request, ("_list",), context)
    context |= tabs_context(viewer, tab=tab, filters=filters)
    if target == "queue-list":
        return _parts(request, ("_tabs", "_list"), context)
    context |= controls_context(viewer, tab=tab, filters=filters)
    context["d"] = _open(viewer, context["open_hold"])
    return page(request, "reviews/queue/queue.html", context, section="review")


def _parts(request: HttpRequest, names: Sequence[str], context: dict[str, Any]) -> HttpResponse:
    """Parts of the page, for scripts."""
    text = "".join(
        render_to_string(f"reviews/queue/{name}.html", context, request) for name in names
    )
    response = HttpResponse(text)
    response["Vary"] = "HX-Request, HX-Target, Cookie"
    response["Cache-Control"] = "no-store"
    return response


def _open(viewer: selectors.Viewer, hold_id: str) -> object:
    if not hold_id or "\0" in hold_id:
        return None
    try:
        return decision_context(viewer.user, services.visible_hold(viewer.user, hold_id))
    except services.HoldNotFound:
        return None
