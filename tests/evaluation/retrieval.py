"""How well a ranker finds the tool of an intent: hit@1, 3, 5 and mean reciprocal rank."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from tests.evaluation.baselines import Ranker

DEPTH = 10
_RESAMPLES = 1_000
_Z = 1.96


@dataclass(frozen=True, slots=True)
class Intent:
    """A wish in plain words, and the tools of which any one answers it."""

    text: str
    category: str
    tools: frozenset[str]

    @property
    def server(self) -> str:
        """The server of its first tool by name; intents are split by it."""
        return min(self.tools).partition(".")[0]


def intents_of(rows: Sequence[Mapping[str, object]]) -> list[Intent]:
    """Convert the rows of the file of intents."""
    return [
        Intent(str(row["intent"]), str(row["category"]), frozenset(row["tools"]))  # type: ignore[call-overload]
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class Quality:
    """Reciprocal ranks, 0 where the tool is not among the first ten."""

    reciprocal: tuple[float, ...]

    def hit(self, depth: int) -> float:
        """Return the share of intents whose tool is among the first ``depth``."""
        return sum(value >= 1 / depth for value in self.reciprocal) / len(self.reciprocal)

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank."""
        return sum(self.reciprocal) / len(self.reciprocal)

    def hit_interval(self, depth: int) -> tuple[float, float]:
        """Return the 95 % Wilson interval of a hit rate."""
        n, share = len(self.reciprocal), self.hit(depth)
        centre = (share + _Z * _Z / (2 * n)) / (1 + _Z * _Z / n)
        half = _Z * sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n)) / (1 + _Z * _Z / n)
        return centre - half, centre + half

    def mrr_interval(self) -> tuple[float, float]:
        """Return the 95 % bootstrap interval of the mean reciprocal rank."""
        chance, n = random.Random(1), len(self.reciprocal)
        means = sorted(sum(chance.choices(self.reciprocal, k=n)) / n for _ in range(_RESAMPLES))
        return means[_RESAMPLES // 40], means[-_RESAMPLES // 40]


def measure(ranker: Ranker, intents: Sequence[Intent]) -> Quality:
    """Ask the ranker every intent."""
    return Quality(tuple(_reciprocal(ranker(intent.text), intent) for intent in intents))


def _reciprocal(names: Sequence[str], intent: Intent) -> float:
    places = (at for at, name in enumerate(names[:DEPTH], 1) if name in intent.tools)
    return 1 / next(places, float("inf"))


def halves(intents: Sequence[Intent]) -> tuple[list[Intent], list[Intent]]:
    """Split intents by server: every second server in the order of the alphabet."""
    first = set(sorted({intent.server for intent in intents})[::2])
    return (
        [intent for intent in intents if intent.server in first],
        [intent for intent in intents if intent.server not in first],
    )


def table(
    rankers: Mapping[str, Ranker], intents: Sequence[Intent], held_out: Sequence[Intent]
) -> Iterator[str]:
    """Yield the lines of the table: each ranker over all intents, by server and by category.

    ``held_out`` are intents for other servers, on which nothing was fitted.
    """
    first, second = halves(intents)
    every_intent = [*intents, *held_out]
    categories = sorted({intent.category for intent in every_intent})
    groups = [first, second, held_out]
    groups += [[each for each in every_intent if each.category == name] for name in categories]
    names = ["half A", "half B", "held out", *categories]
    yield (
        f"{'':22}{'hit@1':>7}{'hit@3':>7}{'hit@5':>7}{'95 %':>11}{'MRR':>6}{'95 %':>11}"
        + "".join(f"{name[:10]:>11}" for name in names)
    )
    for label, ranker in rankers.items():
        every = measure(ranker, every_intent)
        by_intent = dict(zip(every_intent, every.reciprocal, strict=True))
        yield (
            f"{label:22}{every.hit(1):7.3f}{every.hit(3):7.3f}{every.hit(5):7.3f}"
            f"{_span(every.hit_interval(5)):>11}{every.mrr:6.3f}{_span(every.mrr_interval()):>11}"
            + "".join(f"{_of(by_intent, group).hit(5):11.3f}" for group in groups)
        )
    yield f"{'intents':22}{len(every_intent):7}{'':42}" + "".join(
        f"{len(group):11}" for group in groups
    )


def _of(by_intent: Mapping[Intent, float], group: Sequence[Intent]) -> Quality:
    return Quality(tuple(by_intent[intent] for intent in group))


def _span(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.2f}-{interval[1]:.2f}"
