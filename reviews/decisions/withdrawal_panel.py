"""Taking a decision back, as the decision page offers it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from reviews.decisions.withdrawal import due_later, undoable
from reviews.models import Decision, HumanReviewRecord
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def standing(records: Iterable[HumanReviewRecord]) -> list[HumanReviewRecord]:
    """The records of one hold without those that were taken back, and those that say so."""
    found = list(records)
    gone = {each.withdraws_id for each in found}
    return [
        each for each in found if each.pk not in gone and each.decision != Decision.WITHDRAW.value
    ]


def undo_context(user: User, hold: Hold) -> dict[str, Any] | None:
    """`d.undo`: what can be taken back, where, for how long; None when there is nothing to say.

    `seconds` are left, 0 when the run waits for another review and so will not go on by itself.
    """
    found = undoable(user, hold)
    if not found.what and not found.why_not and hold.undo_until is None:
        return None
    waits = hold.undo_until is not None and due_later(hold)
    return {
        "what": found.what,
        "label": _("Take back my approval") if found.what == "vote" else _("Undo"),
        "why_not": found.why_not,
        "url": reverse("reviews:withdraw", args=(hold.execution_id, hold.id)),
        "until": hold.undo_until,
        "seconds": 0 if waits else _seconds_left(hold),
        "waits": waits,
        "rests": hold.undo_until is not None,
    }


def _seconds_left(hold: Hold) -> float:
    if hold.undo_until is None:
        return 0
    return round(max(0.0, (hold.undo_until - timezone.now()).total_seconds()), 1)
