"""Predict the next tools of a run from past runs.

The confidence estimates how often the tool runs next, given the last tool and the one before it. It
interpolates two relative frequencies, as Kneser and Ney do for words: every count is reduced by a
discount, and the freed share is divided by the frequencies after the last tool. Where the tool
before the last one tells nothing, the result is weighed with the share after the last tool:
the weight is the one under which the learned counts are most probable, each predicted from the
others (deleted interpolation, Jelinek and Mercer 1980).
``tests/evaluation/learning.py`` compares stated with observed shares.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db import connection

from graphrag.models import ToolSequence

MAX_PREDICTIONS = 3
_DISCOUNT = 0.5
_UNSEEN = 1.0
"""Runs that are added to the number of runs of a tool, for what was not observed yet."""

_MAX_COUNTS = 2_000
_STEPS = 12
"""Steps of expectation maximization; the weight changes by less than 1 % after them."""

# The counts that a prediction is made of, then the most frequent other ones, which weigh them.
_COUNTS = """
SELECT sequence.before, sequence.next, sequence.count
FROM graphrag_toolsequence sequence LEFT JOIN graphrag_tool tool ON tool.name = sequence.next
WHERE sequence.last = %(last)s AND (sequence.next = '' OR tool.enabled)
ORDER BY sequence.before IN ('', %(before)s) DESC, sequence.count DESC, sequence.before,
    sequence.next
LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A probable next tool; it ran after ``after`` in ``observed`` of ``runs`` cases."""

    tool: str
    confidence: float
    after: str
    observed: int
    runs: int


class Followers:
    """How often each tool ran next; ``counts[""]`` is the number of runs, with those that ended."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self.counts = {name: count for name, count in (counts or {}).items() if name}
        self.runs = (counts or {}).get("", 0)
        self._total = sum(self.counts.values())

    def probability(self, name: str, fallback: float, *, left_out: int = 0) -> float:
        """Return the discounted share of a tool; ``fallback`` divides what the discounts free.

        ``left_out`` observations of the tool do not count.
        """
        runs = self.runs - left_out
        if runs <= 0:
            return fallback
        count = self.counts.get(name, 0) - left_out
        others = len(self.counts) - (name in self.counts)
        # Tools of one layer do not exclude each other, so a layer of five counts as one successor.
        at_once = max(1.0, (self._total - left_out) / runs)
        reserved = _UNSEEN + _DISCOUNT * (others + (count > 0)) / at_once
        return (max(0.0, count - _DISCOUNT) + reserved * fallback) / (runs + _UNSEEN)


def predict_next(
    done: Sequence[str], *, limit: int | None = MAX_PREDICTIONS, above: float = 0.0
) -> list[Prediction]:
    """Return up to ``limit`` enabled tools that may run next, most likely first; None returns all.

    ``done`` are tool names, the newest last. The confidence must exceed ``above``.
    """
    if not done:
        return []
    before = done[-2] if len(done) > 1 else ToolSequence.START
    contexts = _contexts(done[-1], before)
    found = _predictions(done[-1], contexts.get("", Followers()), confidences(contexts, before))
    return [each for each in found if each.confidence > above][:limit]


def followers(tool: str, *, limit: int) -> list[Prediction]:
    """Return the enabled tools that may run after a tool, whatever ran before it."""
    contexts = _contexts(tool, "")
    return _predictions(tool, contexts.get("", Followers()), confidences(contexts, ""))[:limit]


def _predictions(last: str, after: Followers, confidences: Mapping[str, float]) -> list[Prediction]:
    predictions = [
        Prediction(name, round(confidence, 4), last, after.counts[name], after.runs)
        for name, confidence in confidences.items()
    ]
    return sorted(predictions, key=lambda item: (-item.confidence, -item.observed, item.tool))


def _contexts(last: str, before: str) -> dict[str, Followers]:
    """Return what ran after ``last``, by the tool that ran before it; "" is any tool."""
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, {"last": last, "before": before, "most": _MAX_COUNTS})
        for context, name, count in cursor.fetchall():
            found[context][name] = count
    return {context: Followers(counts) for context, counts in found.items()}


def confidences(contexts: Mapping[str, Followers], before: str) -> dict[str, float]:
    """Return the probability of each next tool; ``contexts[""]`` counts whatever ran before."""
    after_last = contexts.get("", Followers())
    found = {name: after_last.probability(name, 0.0) for name in after_last.counts}
    if not before or before not in contexts:
        return found
    weight = weight_of_pairs(contexts)
    after_pair = contexts[before]
    return {
        name: weight * after_pair.probability(name, share) + (1.0 - weight) * share
        for name, share in found.items()
    }


def weight_of_pairs(contexts: Mapping[str, Followers]) -> float:
    """Return how much the tool before the last one tells, 0 to 1; 1 for few observations.

    Each count is predicted from the others, with the last tool only and with both.
    """
    after_last = contexts.get("", Followers())
    observed = []
    for after_pair in (each for before, each in contexts.items() if before):
        for name, count in after_pair.counts.items():
            share = after_last.probability(name, 0.0, left_out=1)
            of_pair = after_pair.probability(name, share, left_out=1)
            if share > 0.0:
                observed.append((count, share, of_pair))
    total = 1.0 + sum(count for count, _, _ in observed)
    weight = 0.5
    for _ in range(_STEPS):
        explained = sum(
            count * weight * of_pair / (weight * of_pair + (1.0 - weight) * share)
            for count, share, of_pair in observed
        )
        weight = (1.0 + explained) / total
    return weight
