"""What became of an answer to many reviews, a row each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from reviews.bulk import Outcome
from workflows.access import visible_to
from workflows.models import Hold

from . import words

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_DONE = {
    "claim": "claimed",
    "release": "released",
    "assign": "given on",
    "approve": "approved",
    "reject": "rejected",
}


def bulk_context(user: User, action: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """rows: sentence, done, message, url ("" for what is not visible); and a summary."""
    holds = {
        hold.id: hold
        for hold in Hold.objects.filter(
            pk__in=[each.hold_id for each in outcomes], execution__in=visible_to(user)
        ).select_related("execution")
    }
    done = sum(each.done for each in outcomes)
    left = len(outcomes) - done
    summary = f"{words.counted(done, 'review')} {_DONE[action]}"
    return {
        "errors": (),
        "done": done,
        "left": left,
        "summary": f"{summary}, {left} left as they were." if left else f"{summary}.",
        "rows": tuple(_row(each, holds.get(each.hold_id)) for each in outcomes),
    }


def _row(outcome: Outcome, hold: Hold | None) -> dict[str, Any]:
    return {
        "hold_id": outcome.hold_id,
        "done": outcome.done,
        "message": outcome.message,
        "sentence": words.row_sentence(hold) if hold else "A review that is not there any more",
        "url": reverse("reviews:decision", args=(hold.execution_id, hold.id)) if hold else "",
    }
