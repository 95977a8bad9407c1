"""Retrieval quality over the fixed set: hit@1, hit@3, hit@5 and mean reciprocal rank."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphrag.retrieval import idf, search
from tests.integration.graphrag.fixtures import Intent

Ranker = Callable[[str], Sequence[str]]
DEPTH = 10


@dataclass(frozen=True, slots=True)
class Quality:
    """Shares of intents, 0 to 1."""

    hit_1: float
    hit_3: float
    hit_5: float
    mrr: float
    missed: tuple[str, ...]

    def line(self, name: str) -> str:
        """One row of the report."""
        numbers = (self.hit_1, self.hit_3, self.hit_5, self.mrr)
        return f"{name:<24}" + "".join(f"{number:8.3f}" for number in numbers)


HEADER = f"{'':<24}{'hit@1':>8}{'hit@3':>8}{'hit@5':>8}{'MRR':>8}"


def measure(intents: Sequence[Intent], ranker: Ranker) -> Quality:
    """Ask the ranker every intent; a rank beyond ten counts as not found."""
    ranks = []
    for intent in intents:
        names = list(ranker(intent.text))[:DEPTH]
        hits = [at for at, name in enumerate(names, 1) if name in intent.tools]
        ranks.append(hits[0] if hits else None)
    share = {
        depth: sum(rank is not None and rank <= depth for rank in ranks) / len(ranks)
        for depth in (1, 3, 5)
    }
    return Quality(
        share[1],
        share[3],
        share[5],
        sum(1 / rank for rank in ranks if rank) / len(ranks),
        tuple(
            intent.text
            for intent, rank in zip(intents, ranks, strict=True)
            if rank is None or rank > 5
        ),
    )


def by_vector(query: str) -> list[str]:
    """Names by the vector half alone."""
    found = search.vector_search(query, idf.current(), limit=DEPTH)
    return [candidate.name for candidate in found]


def text_only(query: str) -> list[str]:
    """Names by the full text half alone."""
    frequencies = idf.current()
    found = search.text_search(frequencies.terms(query), frequencies, limit=DEPTH)
    return [candidate.name for candidate in found]


def hybrid(query: str) -> list[str]:
    """Names as a user of the search gets them."""
    return [found.tool.name for found in search.search(query, limit=DEPTH).found]
