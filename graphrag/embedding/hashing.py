"""The hashing embedder: words and character n-grams, hashed into a vector.

It is deterministic and needs no model. Each feature has a sparse signed code (four nonzero
dimensions), so that features rarely collide. Each line of a document weighs less than the line
before, because a tool's name is the most significant. A query's words weigh by their IDF.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from math import log, sqrt
from typing import TYPE_CHECKING

import numpy as np

from graphrag import tokenizer

if TYPE_CHECKING:
    from numpy.typing import NDArray

IDENTITY = "hashing:3"
Rarity = Callable[[str], float]
"""Stem -> its IDF in the catalogue, at least 0."""

_NONZERO = 4
_LINE_WEIGHTS = (1.3, 0.8, 0.2, 0.1)
_NGRAM_WEIGHT = 0.25
_REPETITION_WEIGHT = 0.3
_MAX_WORDS = 400


def embed_documents(texts: Sequence[str], *, dimensions: int) -> NDArray[np.float32]:
    """Return unit vectors, shape ``(len(texts), dimensions)``; a text without words gives zeros."""
    if not texts:
        return np.zeros((0, dimensions), dtype=np.float32)
    return np.stack([_vector(_document_weights(written), dimensions) for written in texts])


def embed_query(
    query: str, *, dimensions: int, rarity: Rarity | None = None
) -> NDArray[np.float32]:
    """Return the unit vector of a query, shape ``(dimensions,)``."""
    return _vector(_query_weights(query, rarity or _uniform_rarity), dimensions)


def _uniform_rarity(_: str) -> float:
    return 1.0


def _document_weights(written: str) -> Mapping[str, float]:
    weights: dict[str, float] = {}
    for at, line in enumerate(written.split("\n")):
        share = _LINE_WEIGHTS[min(at, len(_LINE_WEIGHTS) - 1)]
        counts = Counter(tokenizer.stems(line)[:_MAX_WORDS])
        for word, count in counts.items():
            weight = share * (1.0 + _REPETITION_WEIGHT * log(count))
            for feature, part in ((word, 1.0), *_ngrams(word)):
                weights[feature] = max(weights.get(feature, 0.0), weight * part)
    return weights


# Keyed by the word; bounded by 65,536; never stale, because the result depends only on the key.
@lru_cache(maxsize=65_536)
def _ngrams(word: str) -> tuple[tuple[str, float], ...]:
    """Return character 4-grams, which misspelt and compound words share."""
    if len(word) < 4:
        return ()
    edged = f"<{word}>"
    groups = [edged[start : start + 4] for start in range(len(edged) - 3)]
    return tuple((f"#{group}", _NGRAM_WEIGHT / sqrt(len(groups))) for group in groups)


def _query_weights(query: str, rarity: Rarity) -> Mapping[str, float]:
    weights: dict[str, float] = {}
    for word in tokenizer.stems(query)[:_MAX_WORDS]:
        rare = rarity(word)
        weights[word] = rare
        for feature, part in _ngrams(word):
            weights[feature] = max(weights.get(feature, 0.0), part * rare)
    return weights


def _vector(weights: Mapping[str, float], dimensions: int) -> NDArray[np.float32]:
    vector = np.zeros(dimensions, dtype=np.float64)
    for feature, weight in weights.items():
        places, signs = _sparse_code(feature, dimensions)
        np.add.at(vector, places, weight * signs)
    length = float(np.linalg.norm(vector))
    unit: NDArray[np.float32] = (vector / (length or 1.0)).astype(np.float32)
    return unit


# Keyed by both arguments; bounded by 262,144; never stale: the result depends only on the key.
@lru_cache(maxsize=262_144)
def _sparse_code(feature: str, dimensions: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    raw = blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8 * _NONZERO).digest()
    numbers = [int.from_bytes(raw[at : at + 8]) for at in range(0, len(raw), 8)]
    places = np.array([number % dimensions for number in numbers], dtype=np.int64)
    signs = np.array([1.0 if number >> 63 else -1.0 for number in numbers])
    return places, signs / sqrt(_NONZERO)
