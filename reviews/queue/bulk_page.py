"""What became of an answer to many reviews, a row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from reviews.components import labels as components_labels
from reviews.queue.bulk import Outcome
from workflows.executions.access import visible_to
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Action → the sentence about so many reviews.
_DONE: Mapping[str, Callable[[int], str]] = {
    "claim": lambda n: ngettext("%(n)s review claimed", "%(n)s reviews claimed", n),
    "release": lambda n: ngettext("%(n)s review released", "%(n)s reviews released", n),
    "assign": lambda n: ngettext("%(n)s review given on", "%(n)s reviews given on", n),
    "approve": lambda n: ngettext("%(n)s review approved", "%(n)s reviews approved", n),
    "reject": lambda n: ngettext("%(n)s review rejected", "%(n)s reviews rejected", n),
    "withdraw": lambda n: ngettext("%(n)s answer taken back", "%(n)s answers taken back", n),
}


def bulk_context(user: User, action: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """rows: sentence, done, message, url ("" for what is not visible); a summary; and `undo`."""
    holds = {
        hold.id: hold
        for hold in Hold.objects.filter(
            pk__in=[each.hold_id for each in outcomes], execution__in=visible_to(user)
        ).select_related("execution")
    }
    done = sum(each.done for each in outcomes)
    left = len(outcomes) - done
    summary = _DONE[action](done) % {"n": done}
    return {
        "errors": (),
        "done": done,
        "left": left,
        "summary": _left(summary, left) if left else f"{summary}.",
        "rows": tuple(_row(each, holds.get(each.hold_id)) for each in outcomes),
        "undo": _undo([holds[each.hold_id] for each in outcomes if _rests(each, holds)]),
    }


def _rests(outcome: Outcome, holds: Mapping[str, Hold]) -> bool:
    """Whether it is a decision that can still be taken back."""
    hold = holds.get(outcome.hold_id)
    return outcome.undo_until is not None and hold is not None and hold.undo_until is not None


def _undo(resting: Sequence[Hold]) -> dict[str, Any] | None:
    """What takes all of it back: the holds, and the seconds until the first of them goes on."""
    first = min((hold.undo_until for hold in resting if hold.undo_until), default=None)
    if first is None:
        return None
    label = ngettext("Undo %(n)s answer", "Undo %(n)s answers", len(resting))
    return {
        "url": reverse("reviews:bulk"),
        "holds": tuple(f"{hold.id}@{hold.execution.version}" for hold in resting),
        "label": label % {"n": len(resting)},
        "seconds": round(max(0.0, (first - timezone.now()).total_seconds()), 1),
    }


def _left(summary: str, left: int) -> str:
    text = ngettext(
        "%(summary)s, %(n)s left as they were.", "%(summary)s, %(n)s left as they were.", left
    )
    return text % {"summary": summary, "n": left}


def _row(outcome: Outcome, hold: Hold | None) -> dict[str, Any]:
    return {
        "hold_id": outcome.hold_id,
        "done": outcome.done,
        "message": outcome.message,
        "sentence": components_labels.row_sentence(hold)
        if hold
        else _("A review that is not there any more"),
        "url": reverse("reviews:decision", args=(hold.execution_id, hold.id)) if hold else "",
    }
