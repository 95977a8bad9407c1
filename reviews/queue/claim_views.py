"""Claiming a review, giving it back or to somebody else, and being seen looking at it."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from reviews.components.views import SeeOther, fragment, hold_or_404, is_htmx, person
from reviews.decisions import services
from reviews.decisions.conflicts import Conflict
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.page import status_context
from reviews.decisions.rights import NotAllowed
from reviews.queue import claims, presence


@login_required
@require_POST
def claim(request: HttpRequest, execution_id: int, hold_id: str) -> HttpResponse:
    """`action` is claim, release or assign (to `to`); htmx gets the status banner back."""
    hold = hold_or_404(request, execution_id, hold_id)
    error, status = _apply(request, hold.id)
    if is_htmx(request):
        now = hold_or_404(request, execution_id, hold_id)
        d = {**status_context(person(request), now), "claim_error": error}
        return fragment(request, "reviews/decisions/_status.html", {"d": d}, status=status)
    if error:
        messages.error(request, error)
    return SeeOther(reverse("reviews:decision", args=(execution_id, hold_id)))


def _apply(request: HttpRequest, hold_id: str) -> tuple[str, int]:
    """Why it could not be done ("" when it was), and the status that says so."""
    user = person(request)
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
        return denied.message, 403
    except Conflict as late:
        return late.message, 409
    except ReviewInvalid:
        return _("Choose somebody who can decide this review."), 422
    return "", 200


@login_required
@require_POST
def looking(request: HttpRequest, execution_id: int, hold_id: str) -> HttpResponse:
    """The page's word that it is open; `leave` when it closes.  No content."""
    hold = hold_or_404(request, execution_id, hold_id)
    act = presence.leave if "leave" in request.POST else presence.look
    try:
        act(hold_id=hold.id, user=person(request))
    except services.HoldNotFound:
        raise Http404 from None
    return HttpResponse(status=204)
