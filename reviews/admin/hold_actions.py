"""Actions on several reviews, from the admin's list; each review has its own outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_

from reviews.components import labels
from reviews.components.reasons import render_reason, render_stored
from reviews.components.views import current_user
from reviews.decisions import services
from reviews.decisions.conflicts import Conflict
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.rights import NotAllowed
from reviews.queue import bulk
from reviews.queue.extensions import extend
from workflows.common.number_parsing import parse_natural_number
from workflows.executions.access import visible_to
from workflows.models import Hold
from workflows.permissions import step_up

if TYPE_CHECKING:
    from django.contrib.auth.models import User

TITLES = {
    "approve": N_("Approve reviews"),
    "reject": N_("Reject reviews"),
    "request_changes": N_("Request changes"),
    "claim": N_("Claim reviews"),
    "assign": N_("Assign reviews"),
    "extend": N_("Extend deadlines"),
}
BUTTONS = {
    "approve": N_("Approve"),
    "reject": N_("Reject"),
    "request_changes": N_("Request changes"),
    "claim": N_("Claim"),
    "assign": N_("Assign"),
    "extend": N_("Extend"),
}


def apply_action(
    request: HttpRequest, action: str, chosen: Sequence[bulk.SelectedHold]
) -> list[bulk.Outcome]:
    """Apply one of TITLES to each review; raises ReviewInvalid before anything is changed."""
    comment = request.POST.get("comment", "").replace("\r\n", "\n").strip()
    if action == "extend":
        # The bulk service does not extend deadlines; its checks of the call apply all the same.
        bulk.check(chosen, bulk.Request(action="claim"))
        return [_extended(request, each) for each in chosen]
    wanted = bulk.Request(
        action=cast("bulk.Action", action),
        comment=comment,
        to=request.POST.get("to", "").replace("\0", "").strip(),
        undo_seconds=None,
    )
    return bulk.apply_to_all(
        chosen=chosen,
        request=wanted,
        user=current_user(request),
        confirmed_at=step_up.confirmed_at(request),
    )


def _extended(request: HttpRequest, chosen: bulk.SelectedHold) -> bulk.Outcome:
    hours = parse_natural_number(request.POST.get("hours", ""), digits=4) or 0
    user = current_user(request)
    try:
        extend(hold_id=chosen.hold_id, user=user, seconds=float(hours * 3600), source="web")
    except (services.HoldNotFound, NotAllowed, Conflict, ReviewInvalid) as error:
        return bulk.Outcome(chosen.hold_id, done=False, code="refused", message=_why(error))
    return bulk.Outcome(chosen.hold_id, done=True, code="done", message=_("Deadline extended."))


def _why(error: Exception) -> str:
    if isinstance(error, NotAllowed | Conflict):
        return render_reason(error.reason)
    return str(error) or _("Not found.")


def bulk_result(user: User, outcomes: Sequence[bulk.Outcome]) -> list[tuple[bool, str]]:
    """Return whether each action was done, with a sentence that names the review."""
    ids = [each.hold_id for each in outcomes]
    holds = Hold.objects.filter(pk__in=ids, execution__in=visible_to(user))
    known = {hold.pk: labels.row_sentence(hold) for hold in holds.select_related("execution")}
    missing = _("A review that no longer exists")
    return [
        (each.done, f"{known.get(each.hold_id, missing)}: {render_stored(each, 'message')}")
        for each in outcomes
    ]
