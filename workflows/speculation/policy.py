"""When to speculate: the probability that a result is used, and when to pause.

Pure arithmetic over hits (results that were used) and misses (results that were dropped).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from workflows import conf

#: Hits that each pair of tools starts with.
PRIOR_HITS = 3
LOWEST_THRESHOLD, HIGHEST_THRESHOLD = 0.70, 0.95

Confidence = float | Literal["learned"]


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers of results that were used and that were dropped."""

    hits: int = 0
    misses: int = 0

    @property
    def share(self) -> float:
        """Return the hit rate, 0 to 1; 1 if there are no results."""
        total = self.hits + self.misses
        return self.hits / total if total else 1.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """Speculation has paused itself until `until`, or until a user resumes it."""

    tally: Tally
    until: datetime


def hit_probability(tally: Tally) -> float:
    """Return the estimated probability that the next result is used; 1 without any results."""
    return (tally.hits + PRIOR_HITS) / (tally.hits + tally.misses + PRIOR_HITS)


def required_probability(confidence: Confidence, tally: Tally) -> float:
    """Return the probability from which a task is speculated.

    "learned" starts at 0.825, falls to 0.70 with hits and rises to 0.95 with misses.
    """
    if confidence != "learned":
        return confidence
    share = (tally.hits + 1) / (tally.hits + tally.misses + 2)
    return HIGHEST_THRESHOLD - (HIGHEST_THRESHOLD - LOWEST_THRESHOLD) * share


def is_worthwhile(confidence: Confidence, tally: Tally) -> bool:
    """Whether to speculate a task, given how often its results were used and dropped."""
    return hit_probability(tally) >= required_probability(confidence, tally)


def stopped(outcomes: Sequence[tuple[bool, datetime]]) -> Stopped | None:
    """Return a pause if too few of the last results were used.

    `outcomes` are (used, when) of the last `speculation_window` results, newest first, none older
    than `speculation_memory_seconds`.  The pause ends when the oldest of them reaches that age.
    """
    if len(outcomes) < conf.speculation_window():
        return None
    hits = sum(used for used, _ in outcomes)
    tally = Tally(hits, len(outcomes) - hits)
    if tally.share >= conf.speculation_min_hits():
        return None
    memory = timedelta(seconds=conf.speculation_memory_seconds())
    return Stopped(tally, min(when for _, when in outcomes) + memory)
