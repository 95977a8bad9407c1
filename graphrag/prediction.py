"""Predict the next tools of a run from past runs.

The confidence estimates how often the tool runs next, given the last tool and the one before it. It
interpolates two relative frequencies, as Kneser and Ney do for words: every count is reduced by a
discount, and the share that this frees is divided as after the last tool alone.
``tests/evaluation/learning.py`` compares stated with observed shares.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db import connection

from graphrag.models import ToolSequence

MAX_PREDICTIONS = 3
_DISCOUNT = 0.5
_UNSEEN = 1.0
"""Runs that are added to the number of runs of a tool, for what was not observed yet."""

_COUNTS = """
SELECT sequence.before, sequence.next, sequence.count
FROM graphrag_toolsequence sequence LEFT JOIN graphrag_tool tool ON tool.name = sequence.next
WHERE sequence.last = %(last)s AND sequence.before IN ('', %(before)s)
    AND (sequence.next = '' OR tool.enabled)
"""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A probable next tool; it ran after ``after`` in ``observed`` of ``runs`` cases."""

    tool: str
    confidence: float
    after: str
    observed: int
    runs: int


def predict_next(
    done: Sequence[str], *, limit: int | None = MAX_PREDICTIONS, above: float = 0.0
) -> list[Prediction]:
    """Return up to ``limit`` enabled tools that may run next, most likely first; None returns all.

    ``done`` are tool names, the newest last. The confidence must exceed ``above``.
    """
    if not done:
        return []
    before = done[-2] if len(done) > 1 else ToolSequence.START
    last_only, with_before = _counts(done[-1], before)
    found = _predictions(done[-1], last_only, with_before)
    return [each for each in found if each.confidence > above][:limit]


def followers(tool: str, *, limit: int) -> list[Prediction]:
    """Return the enabled tools that may run after a tool, whatever ran before it."""
    last_only, _ = _counts(tool, "")
    return _predictions(tool, last_only, {})[:limit]


def _predictions(
    last: str, last_only: Mapping[str, int], with_before: Mapping[str, int]
) -> list[Prediction]:
    predictions = [
        Prediction(name, round(confidence, 4), last, last_only[name], last_only[""])
        for name, confidence in confidences(last_only, with_before).items()
    ]
    return sorted(predictions, key=lambda item: (-item.confidence, -item.observed, item.tool))


def _counts(last: str, before: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return how often each tool ran after ``last``, at all and where ``before`` ran earlier."""
    found: dict[str, dict[str, int]] = {"": {}, before: {}}
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, {"last": last, "before": before})
        for context, name, count in cursor.fetchall():
            found[context][name] = count
    return found[""], found[before]


def confidences(last_only: Mapping[str, int], with_before: Mapping[str, int]) -> dict[str, float]:
    """Return the probability of each next tool from its counts; "" counts the runs of the last."""
    found = _interpolated(last_only, {})
    return _interpolated(with_before, found) if with_before else found


def _interpolated(counts: Mapping[str, int], fallback: Mapping[str, float]) -> dict[str, float]:
    runs = counts.get("", 0)
    names = [name for name in counts if name]
    if not runs:
        return {}
    # Tools of one layer do not exclude each other, so a layer of five counts as one successor.
    at_once = max(1.0, sum(counts[name] for name in names) / runs)
    reserved = _UNSEEN + _DISCOUNT * len(names) / at_once
    return {
        name: (max(0.0, counts.get(name, 0) - _DISCOUNT) + reserved * fallback.get(name, 0.0))
        / (runs + _UNSEEN)
        for name in {*names, *fallback}
    }
