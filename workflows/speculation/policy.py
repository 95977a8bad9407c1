"""Whether work ahead pays: how sure a result is to be used, and when to stop trying.

Pure arithmetic over hits and misses, so that people can do the sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from workflows import conf

#: A pair of tools begins with so many hits in its favour.
PRIOR_HITS = 3
LOWEST_THRESHOLD, HIGHEST_THRESHOLD = 0.70, 0.95

Confidence = float | Literal["learned"]


@dataclass(frozen=True, slots=True)
class Tally:
    """Results that were used, and results that were dropped."""

    hits: int = 0
    misses: int = 0

    @property
    def share(self) -> float:
        """Hits among all, 0 to 1; 1 when there are none."""
        total = self.hits + self.misses
        return self.hits / total if total else 1.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """Work ahead has stopped itself; it goes on at `until`, or when somebody says so."""

    tally: Tally
    until: datetime


def hit_probability(tally: Tally) -> float:
    """How sure the next result is to be used, 0 to 1: 1 without any experience."""
    return (tally.hits + PRIOR_HITS) / (tally.hits + tally.misses + PRIOR_HITS)


def required_probability(confidence: Confidence, tally: Tally) -> float:
    """How sure it has to be.  Learned: 0.825 at first, down to 0.70 with hits, 0.95 with misses."""
    if confidence != "learned":
        return confidence
    share = (tally.hits + 1) / (tally.hits + tally.misses + 2)
    return HIGHEST_THRESHOLD - (HIGHEST_THRESHOLD - LOWEST_THRESHOLD) * share


def is_worthwhile(confidence: Confidence, tally: Tally) -> bool:
    """Whether a result that so often was used and dropped is worth working out ahead."""
    return hit_probability(tally) >= required_probability(confidence, tally)


def stopped(outcomes: Sequence[tuple[bool, datetime]]) -> Stopped | None:
    """Whether too few of the last results were used.

    `outcomes` are (used, when) of the last `speculation_window` results, newest first, none older
    than `speculation_memory_seconds`: the oldest of them is the first to be forgotten.
    """
    if len(outcomes) < conf.speculation_window():
        return None
    hits = sum(used for used, _ in outcomes)
    tally = Tally(hits, len(outcomes) - hits)
    if tally.share >= conf.speculation_min_hits():
        return None
    memory = timedelta(seconds=conf.speculation_memory_seconds())
    return Stopped(tally, min(when for _, when in outcomes) + memory)
