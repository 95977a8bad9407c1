"""Baselines: BM25 over stems, and TF-IDF over character n-grams."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import log, sqrt

from graphrag import tokenizer
from graphrag.catalogue.tool_record import ToolRecord

Ranker = Callable[[str], Sequence[str]]
"""Query -> names of tools, best first."""

_K1, _B = 1.2, 0.75
_SIZES = (3, 4, 5)


def _text(record: ToolRecord) -> str:
    return f"{tokenizer.spaced(record.name)} {record.title} {record.description}"


def bm25(records: Sequence[ToolRecord]) -> Ranker:
    """Plain BM25 over the stems of name, title and description."""
    counts = [Counter(tokenizer.stems(_text(record))) for record in records]
    lengths = [count.total() for count in counts]
    mean = sum(lengths) / len(lengths)
    postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for at, (count, length) in enumerate(zip(counts, lengths, strict=True)):
        for stem, times in count.items():
            damped = times * (_K1 + 1) / (times + _K1 * (1 - _B + _B * length / mean))
            postings[stem].append((at, damped))

    def rank(query: str) -> list[str]:
        scores: Counter[int] = Counter()
        for stem in set(tokenizer.stems(query)):
            found = postings.get(stem, ())
            rarity = log(1 + (len(records) - len(found) + 0.5) / (len(found) + 0.5))
            for at, weight in found:
                scores[at] += rarity * weight  # type: ignore[assignment]
        return _best(records, scores)

    return rank


def character_ngrams(records: Sequence[ToolRecord]) -> Ranker:
    """Cosine of TF-IDF vectors over n-grams of 3 to 5 characters within words."""
    counts = [Counter(_ngrams(_text(record))) for record in records]
    frequency = Counter(gram for count in counts for gram in count)
    rarity = {gram: log((1 + len(records)) / (1 + n)) + 1 for gram, n in frequency.items()}
    postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for at, count in enumerate(counts):
        for gram, weight in _unit(count, rarity).items():
            postings[gram].append((at, weight))

    def rank(query: str) -> list[str]:
        known = Counter(gram for gram in _ngrams(query) if gram in rarity)
        scores: Counter[int] = Counter()
        for gram, weight in _unit(known, rarity).items():
            for at, other in postings[gram]:
                scores[at] += weight * other  # type: ignore[assignment]
        return _best(records, scores)

    return rank


def _ngrams(text: str) -> Iterable[str]:
    for word in tokenizer.content_words(text):
        edged = f" {word} "
        for size in _SIZES:
            for start in range(len(edged) - size + 1):
                yield edged[start : start + size]


def _unit(count: Counter[str], rarity: Mapping[str, float]) -> dict[str, float]:
    weights = {gram: (1 + log(times)) * rarity[gram] for gram, times in count.items()}
    length = sqrt(sum(weight * weight for weight in weights.values())) or 1.0
    return {gram: weight / length for gram, weight in weights.items()}


def _best(records: Sequence[ToolRecord], scores: Counter[int]) -> list[str]:
    return [records[at].name for at, _ in scores.most_common(10)]
