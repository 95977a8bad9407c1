"""Words of a vocabulary that share letters with a word, by cosine of their character n-grams."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from heapq import nsmallest
from math import log, sqrt

_SIZES = (3, 4, 5)


class LetterIndex:
    """An inverted index of the character n-grams in a vocabulary; a rare n-gram weighs more."""

    def __init__(self, vocabulary: Collection[str]) -> None:
        self._words: dict[str, list[str]] = defaultdict(list)
        for word in vocabulary:
            for gram in set(_ngrams(word)):
                self._words[gram].append(word)
        self._total = len(vocabulary)
        self._lengths = {word: self._length(set(_ngrams(word))) for word in vocabulary}

    def similar(self, word: str, *, at_least: float, most: int) -> Mapping[str, float]:
        """Return the words with the highest cosine, best first: word -> cosine, 0 to 1."""
        grams = set(_ngrams(word))
        products: Counter[str] = Counter()
        for gram in grams:
            weight = self._weight(gram) ** 2
            for other in self._words.get(gram, ()):
                products[other] += weight  # type: ignore[assignment]
        length = self._length(grams)
        cosines = {
            other: product / (length * self._lengths[other]) for other, product in products.items()
        }
        near = (pair for pair in cosines.items() if pair[1] >= at_least)
        return dict(nsmallest(most, near, key=lambda pair: (-pair[1], pair[0])))

    def length(self, word: str) -> float:
        """Return the length of the word's vector; a long word with rare n-grams has a long one."""
        return self._lengths.get(word) or self._length(set(_ngrams(word)))

    def _weight(self, gram: str) -> float:
        return log((1 + self._total) / (1 + len(self._words.get(gram, ())))) + 1

    def _length(self, grams: Collection[str]) -> float:
        return sqrt(sum(self._weight(gram) ** 2 for gram in grams))


def _ngrams(word: str) -> Iterator[str]:
    edged = f" {word} "
    for size in _SIZES:
        for start in range(len(edged) - size + 1):
            yield edged[start : start + size]
