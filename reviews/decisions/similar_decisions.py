"""What was decided before about the same tool, the most alike first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from reviews.audit.history import records
from reviews.models import HumanReviewRecord
from workflows.models import Hold

from .edits import payload_schema, shown_payload
from .masking import Masked, NotRestorable, masked, restored
from .similarity import features, likeness
from .three_way_merge import merge

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: The latest decisions that are compared, and those that are shown.
_LOOKED_AT: Final = 200
_SHOWN: Final = 3
_LEAST: Final = 0.3


@dataclass(frozen=True, slots=True)
class Precedent:
    """A past decision; `alike` from 0 to 1.

    `reuse` is [the present payload, masked, with that decision's edit], or [] when it edited
    nothing, or nothing that is new here.
    """

    record: HumanReviewRecord
    alike: float
    reuse: list[Any]


def precedents(user: User, hold: Hold) -> list[Precedent]:
    """The nearest decisions of people on the same tool and phase that the user may see."""
    if not hold.target:
        return []
    rows = (
        records(user)
        .standing()
        .filter(target=hold.target, trigger_phase=hold.phase, reviewer__isnull=False)
    )
    mine = features(hold.payload)
    found = [
        (likeness(mine, features(record.original_data)), record)
        for record in rows.exclude(hold_id=hold.pk)[:_LOOKED_AT]
    ]
    near = [pair for pair in found if pair[0] >= _LEAST]
    near.sort(key=lambda pair: (pair[0], pair[1].pk), reverse=True)
    view = shown_payload(hold, payload_schema(hold))
    return [Precedent(record, alike, _reuse(record, hold, view)) for alike, record in near[:_SHOWN]]


def _reuse(record: HumanReviewRecord, hold: Hold, view: Masked) -> list[Any]:
    if not record.is_edited or hold.status != Hold.Status.OPEN:
        return []
    # Where the payload of today differs from theirs as well, their edit is what is asked for.
    theirs = masked(record.original_data, view.rules, after=view)
    edited = masked(record.modified_data, view.rules, after=theirs)
    merged = merge(theirs.value, view.value, edited.value).merged
    try:
        restored(merged, view)  # a secret of theirs is nothing to take over
    except NotRestorable:
        return []
    return [] if merged == view.value else [merged]
