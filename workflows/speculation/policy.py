"""When to speculate: the probability that results are used, when to pause and when to explore.

Pure arithmetic over decisions.  A decision is a hit if at least half of the results that were
computed before it were used, however many they are; otherwise it is a miss.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from workflows import conf

#: Share of hits below which speculation pauses.
MIN_HITS = 0.4

#: Hits that each pair of tools starts with.
PRIOR_HITS = 3
#: Decisions of a pair before it is judged, so that the first rejection does not end it.
MIN_DECISIONS = 3
LOWEST_THRESHOLD, HIGHEST_THRESHOLD = 0.70, 0.95

Confidence = float | Literal["learned"]


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers of decisions whose results were used and were dropped."""

    hits: int = 0
    misses: int = 0

    @property
    def share(self) -> float:
        """Return the hit rate, 0 to 1; 1 if there are no decisions."""
        total = self.hits + self.misses
        return self.hits / total if total else 1.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """Speculation has paused itself until `until`, or until a user resumes it."""

    tally: Tally
    until: datetime


def hit_probability(tally: Tally) -> float:
    """Return the estimated probability that the next decision is a hit; 1 without any."""
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
    """Whether to speculate a task, given the decisions about earlier results of its tool."""
    if tally.hits + tally.misses < MIN_DECISIONS:
        return True
    return hit_probability(tally) >= required_probability(confidence, tally)


def is_hit(used: int, results: int) -> bool:
    """Return whether a decision is a hit, given how many of its results were used."""
    return 2 * used >= results


def decisions(results: Iterable[tuple[Hashable, bool, datetime]]) -> list[tuple[bool, datetime]]:
    """Return (hit, when) of each decision, in the order of the first result of each.

    `results` are (decision, used, when).
    """
    found: dict[Hashable, list[tuple[bool, datetime]]] = {}
    for decision, used, when in results:
        found.setdefault(decision, []).append((used, when))
    return [
        (is_hit(sum(used for used, _ in rows), len(rows)), max(when for _, when in rows))
        for rows in found.values()
    ]


def explores(hold_id: str) -> bool:
    """Return whether speculation ignores its hit rate at this hold, to measure it again.

    This concerns `speculation_explore` of all holds, and always answers alike for one hold.
    """
    return zlib.crc32(hold_id.encode()) < conf.speculation_explore() * 2**32


def stopped(outcomes: Sequence[tuple[bool, datetime]]) -> Stopped | None:
    """Return a pause if too few of the last decisions were hits.

    `outcomes` are (hit, when) of the last `speculation_window` decisions, newest first, none older
    than `speculation_memory_seconds`.  The pause ends when the oldest of them reaches that age, or
    when enough hits were observed at holds that explore.
    """
    if len(outcomes) < conf.speculation_window():
        return None
    hits = sum(used for used, _ in outcomes)
    tally = Tally(hits, len(outcomes) - hits)
    if tally.share >= MIN_HITS:
        return None
    memory = timedelta(seconds=conf.speculation_memory_seconds())
    return Stopped(tally, min(when for _, when in outcomes) + memory)
