"""The queue, and one review beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.mixins import LoginRequiredMixin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from django.views.generic import View

from reviews.components.reasons import render_reason
from reviews.components.views import (
    SeeOther,
    back_to_review,
    current_user,
    cursor_or_404,
    fragment,
    hold_or_404,
    is_htmx,
    page,
    posted_in_admin,
)
from reviews.decisions import services
from reviews.decisions.conflicts import Conflict
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.pages import decision_context, status_context
from reviews.decisions.rights import NotAllowed
from reviews.queue import bulk as many
from reviews.queue import claims, presence, saved_views, selectors
from reviews.queue.extensions import extend
from reviews.queue.filters import parse_queue_filters
from reviews.queue.pages import (
    ChangedRuns,
    bulk_context,
    controls_context,
    deadline_context,
    rows_context,
    tabs_context,
)
from workflows.common.number_parsing import parse_natural_number
from workflows.models import Hold
from workflows.permissions import step_up


@login_required
@require_safe
def queue(request: HttpRequest) -> HttpResponse:
    """Tabs and rows; with `?hold=` that review at the side.

    Parts alone are for pages that are open, and HX-Target names them: `queue-list` the rows, and
    the tabs with them; with `changed` (ids of runs, parted by commas) and `until` (the cursor at
    the page's end) those rows of these runs that belong there, and nothing else, because somebody
    waits for them.  `queue-tabs` is the tabs, for the numbers, which may come a moment later.
    """
    viewer = selectors.Viewer(current_user(request))
    tab, filters = request.GET.get("tab", "me"), parse_queue_filters(request.GET)
    target = request.headers.get("HX-Target", "") if is_htmx(request) else ""
    if target == "queue-tabs":
        return _parts(request, ("_tabs",), tabs_context(viewer, tab=tab, filters=filters))
    changed = None
    with cursor_or_404():
        if target == "queue-list":
            changed = ChangedRuns.of(request.GET)
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


@login_required
@require_POST
def bulk(request: HttpRequest) -> HttpResponse:
    """`hold` is repeated as `<id>@<version>`; answers with a result per hold, as a fragment."""
    wanted = many.Request(
        action=cast("many.Action", request.POST.get("action", "")),
        comment=request.POST.get("comment", "").replace("\r\n", "\n").strip(),
        to=request.POST.get("to", "").replace("\0", "").strip(),
        undo_seconds=None,
    )
    try:
        outcomes = many.apply_to_all(
            chosen=[many.selected_hold(text) for text in request.POST.getlist("hold")],
            request=wanted,
            user=current_user(request),
            confirmed_at=step_up.confirmed_at(request),
        )
    except ReviewInvalid as invalid:
        context = {"errors": invalid.errors, "url": reverse("reviews:queue")}
        return fragment(request, "reviews/queue/_bulk_result.html", context, status=422)
    context = bulk_context(current_user(request), wanted.action, outcomes)
    return fragment(request, "reviews/queue/_bulk_result.html", context)


@login_required
@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Save the filters of the queue (`query`) as the view `name`; redirects to the queue."""
    query = saved_views.canonical_query(request.POST.get("query", ""))
    back = f"{reverse('reviews:queue')}?{query}" if query else reverse("reviews:queue")
    try:
        view = saved_views.save_view(
            user=current_user(request),
            name=request.POST.get("name", ""),
            query=query,
            shared=request.POST.get("shared") == "yes",
        )
    except ReviewInvalid as invalid:
        messages.error(
            request,
            _("The view was not saved: its name %(fault)s.") % {"fault": invalid.errors[0].message},
        )
    else:
        messages.success(request, _("Saved as “%(name)s”.") % {"name": view.name})
    return SeeOther(back)


@login_required
@require_POST
def remove(request: HttpRequest, view_id: int) -> HttpResponse:
    """Delete a saved view of the user; the filters of the queue stay."""
    try:
        view = saved_views.remove_view(user=current_user(request), view_id=view_id)
    except saved_views.ViewNotFound:
        raise Http404 from None
    messages.success(request, _("“%(name)s” is no longer among the views.") % {"name": view.name})
    return SeeOther(f"{reverse('reviews:queue')}?{view.query}")


@login_required
@require_POST
def claim(request: HttpRequest, execution_id: int, hold_id: str) -> HttpResponse:
    """Claim, release or assign (to `to`) a hold, by `action`; htmx receives the status banner."""
    hold = hold_or_404(request, execution_id, hold_id)
    error, status = _apply(request, hold.id)
    if is_htmx(request):
        now = hold_or_404(request, execution_id, hold_id)
        d = {
            **status_context(current_user(request), now),
            "claim_error": error,
            "in_admin": posted_in_admin(request),
        }
        return fragment(request, "reviews/decisions/_status.html", {"d": d}, status=status)
    if error:
        messages.error(request, error)
    return back_to_review(request, hold)


def _apply(request: HttpRequest, hold_id: str) -> tuple[str, int]:
    """Apply the action; return an error message ("" for none) and the HTTP status."""
    user = current_user(request)
    try:
        match request.POST.get("action"):
            case "claim":
                claims.claim(hold_id=hold_id, user=user)
            case "release":
                claims.release(hold_id=hold_id, user=user)
            case "assign":
                to = request.POST.get("to", "").replace("\0", "")
                claims.assign(hold_id=hold_id, user=user, to=to)
            case _:
                return _("Choose claim, release or assign."), 422
    except NotAllowed as denied:
        return render_reason(denied.reason), 403
    except Conflict as late:
        return render_reason(late.reason), 409
    except ReviewInvalid:
        return _("Choose somebody who can decide this review."), 422
    return "", 200


@login_required
@require_POST
def looking(request: HttpRequest, execution_id: int, hold_id: str) -> HttpResponse:
    """Heartbeat of an open review page; `leave` when it closes.  Responds without content.

    `renew` also renews the viewer's claim.
    """
    hold = hold_or_404(request, execution_id, hold_id)
    user = current_user(request)
    act = presence.mark_left if "leave" in request.POST else presence.mark_viewing
    try:
        act(hold_id=hold.id, user=user)
        if "renew" in request.POST:
            claims.renew(hold_id=hold.id, user=user)
    except services.HoldNotFound:
        raise Http404 from None
    return HttpResponse(status=204)


class ExtendView(LoginRequiredMixin, View):
    """Show the deadline (GET) or extend it (POST)."""

    http_method_names = ["get", "head", "post"]

    def get(self, request: HttpRequest, execution_id: int, hold_id: str) -> HttpResponse:
        """Return the sentence about the deadline."""
        return self._show(request, hold_or_404(request, execution_id, hold_id))

    def post(self, request: HttpRequest, execution_id: int, hold_id: str) -> HttpResponse:
        """Redirect to the review; htmx receives the sentence with the new deadline."""
        hold = hold_or_404(request, execution_id, hold_id)
        error, status = "", 200
        try:
            extend(
                hold_id=hold.id,
                user=current_user(request),
                seconds=_seconds(request.POST.get("seconds", "")),
                source="web",
            )
        except NotAllowed as denied:
            error, status = render_reason(denied.reason), 403
        except Conflict as late:
            error, status = render_reason(late.reason), 409
        except ReviewInvalid as invalid:
            fault = invalid.errors[0].message
            error, status = _("The time %(fault)s.") % {"fault": fault}, 422
        if is_htmx(request):
            now = hold_or_404(request, execution_id, hold_id)
            return self._show(request, now, error=error, status=status)
        if status == 403:
            raise PermissionDenied(error)
        if error:
            messages.error(request, error)
        return back_to_review(request, hold)

    def _show(
        self, request: HttpRequest, hold: Hold, *, error: str = "", status: int = 200
    ) -> HttpResponse:
        context = {"d": deadline_context(current_user(request), hold, error=error)}
        answer = fragment(request, "reviews/queue/_deadline.html", context, status=status)
        if request.method == "POST":
            # The run has a new version, so the decision form is updated too.
            answer["HX-Trigger"] = "holdpoint:news"
        return answer


def _seconds(text: str) -> float:
    """Return the posted number; 0, which is out of range, for other text."""
    return float(parse_natural_number(text, digits=9) or 0)
