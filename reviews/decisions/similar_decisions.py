"""Past decisions about the tool of a hold, most similar first."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

from django.urls import reverse
from django.utils.translation import gettext as _

from reviews.audit.history import records
from reviews.components import labels as components_labels
from reviews.components.number_formatting import percent
from reviews.decisions.rights import right_now
from reviews.models import HumanReviewRecord
from workflows.models import Hold

from .edits import payload_schema, shown_payload
from .masking import Masked, NotRestorable, masked, restored
from .three_way_merge import merge

if TYPE_CHECKING:
    from django.contrib.auth.models import User


#: The latest decisions that are compared, and those that are shown.
_MAX_COMPARED: Final = 200
_MAX_SHOWN: Final = 3
_MIN_SIMILARITY: Final = 0.3


@dataclass(frozen=True, slots=True)
class SimilarDecision:
    """A past decision; `score` from 0 to 1.

    `reuse` is [the present payload, masked, with that decision's edit], or [] when it edited
    nothing, or nothing that is new here.
    """

    record: HumanReviewRecord
    score: float
    reuse: list[Any]


def similar_decisions(user: User, hold: Hold) -> list[SimilarDecision]:
    """Return the most similar visible decisions of people about the hold's tool and phase."""
    if not hold.target:
        return []
    rows = (
        records(user)
        .standing()
        .filter(target=hold.target, trigger_phase=hold.phase, reviewer__isnull=False)
    )
    mine = features(hold.payload)
    scored = [
        (similarity(mine, features(record.original_data)), record)
        for record in rows.exclude(hold_id=hold.pk).with_keys()[:_MAX_COMPARED]
        if not record.is_erased
    ]
    near = [pair for pair in scored if pair[0] >= _MIN_SIMILARITY]
    near.sort(key=lambda pair: (pair[0], pair[1].pk), reverse=True)
    view = shown_payload(hold, payload_schema(hold))
    return [
        SimilarDecision(record, score, _reuse(record, hold, view))
        for score, record in near[:_MAX_SHOWN]
    ]


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


_WORD: Final = re.compile(r"\w+")
#: Features of one payload; what is beyond them does not count.
_MAX_ITEMS: Final = 2000


def features(value: Any) -> Counter[str]:
    """Counts of places (`path`) and of words at places (`path=word`), list items in one place."""
    counts: Counter[str] = Counter()
    for place, text in _leaves(value, ""):
        counts[place] += 1
        counts.update(f"{place}={word}" for word in _WORD.findall(text.lower())[:_MAX_ITEMS])
        if len(counts) > _MAX_ITEMS:
            break
    return counts


def similarity(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Return the similarity of two payloads: 0 for no common features, 1 for equal ones."""
    shared = sum(count * other.get(name, 0) for name, count in one.items())
    lengths = sqrt(_square(one) * _square(other))
    return min(1.0, shared / lengths) if lengths else 0.0


def _square(counts: Mapping[str, int]) -> int:
    return sum(count * count for count in counts.values())


def _leaves(value: Any, place: str) -> Iterator[tuple[str, str]]:
    waiting = [(place, value)]
    while waiting:
        at, part = waiting.pop()
        if isinstance(part, dict):
            waiting.extend((f"{at}.{key}", inner) for key, inner in part.items())
        elif isinstance(part, list):
            waiting.extend((f"{at}[]", inner) for inner in part)
        else:
            yield at, str(part)


def similar_decisions_context(user: User, hold: Hold) -> dict[str, Any]:
    """similar_decisions: sentence, subject, match, at, url, comment, reuse (JSON text or "")."""
    may_edit = right_now(user, hold).approve
    return {
        "similar_decisions": tuple(
            {
                "sentence": components_labels.record_sentence(each.record, short=True),
                "subject": components_labels.record_subject(each.record),
                "match": _("%(share)s match") % {"share": percent(each.score)},
                "at": each.record.reviewed_at,
                "url": reverse("reviews:record", args=(each.record.pk,)),
                "comment": each.record.comment,
                "reuse": json.dumps(each.reuse[0], ensure_ascii=False)
                if each.reuse and may_edit
                else "",
            }
            for each in similar_decisions(user, hold)
        )
    }
