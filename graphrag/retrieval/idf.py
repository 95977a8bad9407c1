"""Words of the catalogue and their inverse document frequency (IDF), cached until it changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log

from django.db import connection

from graphrag import tokenizer, versioned_cache
from graphrag.retrieval.letters import LetterIndex
from graphrag.versioned_cache import CacheVersion, VersionedCache

#: Bounds of the index of words, the most frequent ones first, and of the words of one query.
MAX_WORDS = 50_000
MAX_WORD_LENGTH = 64
MAX_TERMS = 64
_MIN_LETTER_COSINE = 0.2
_MAX_SIMILAR_WORDS = 8
# Words that share too few letters to stand for a word of the query still tell tools apart.
_MIN_SHARED_LETTERS = 0.05
_MAX_WORDS_WITH_LETTERS = 32


@dataclass(frozen=True, slots=True)
class Term:
    """A word of a query.

    ``lexemes`` are the words of the catalogue that it stands for, with their similarity (0 to 1):
    the word itself, if the catalogue has it, and words that share letters with it. ``letters``
    are all words that share some: the product of both words' n-gram vectors, over the length of
    the other one's.
    """

    word: str
    stem: str
    rarity: float
    lexemes: Mapping[str, float]
    letters: Mapping[str, float]


@dataclass(frozen=True)
class Idf:
    """Document frequencies: lexeme -> number of enabled tools with it, and the number of tools."""

    tools: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)

    def rarity(self, lexeme: str) -> float:
        """Inverse document frequency, at least 0; 1 for everything in an empty catalogue."""
        if not self.tools:
            return 1.0
        count = self.counts.get(lexeme, 0)
        return log(1.0 + (self.tools - count + 0.5) / (count + 0.5))

    @cached_property
    def mean_length(self) -> float:
        """The mean number of distinct lexemes of a tool."""
        return sum(self.counts.values()) / self.tools if self.tools else 0.0

    @cached_property
    def _letters(self) -> LetterIndex:
        return LetterIndex(self.counts)

    def terms(self, query: str) -> list[Term]:
        """Return the query's first MAX_TERMS words with the words of the catalogue like them."""
        read = tokenizer.content_words(query)[:MAX_TERMS]
        words = {tokenizer.stem(word): word for word in reversed(read)}
        return [self._term(word, stem) for stem, word in words.items()]

    def _term(self, word: str, stem: str) -> Term:
        near = self._letters.similar(
            stem, at_least=_MIN_SHARED_LETTERS, most=_MAX_WORDS_WITH_LETTERS
        )
        similar = list(near.items())[:_MAX_SIMILAR_WORDS]
        length = self._letters.length(stem)
        return Term(
            word,
            stem,
            self.rarity(stem),
            lexemes={other: cosine for other, cosine in similar if cosine >= _MIN_LETTER_COSINE},
            letters={other: cosine * length for other, cosine in near.items()},
        )

    def letter_length(self, lexeme: str) -> float:
        """Return the length of the lexeme's vector of character n-grams."""
        return self._letters.length(lexeme)

    def selective_lexemes(self, terms: Sequence[Term], pool: int) -> list[str]:
        """Return the rarest lexemes that together select about ``pool`` tools.

        The words of the query come before words that share letters with them: a tool with rare
        neighbours such as ``filex`` must not replace the tools with ``file``.
        """
        chosen: list[str] = []
        tools = 0
        exact = {term.stem for term in terms}
        known = {lexeme for term in terms for lexeme in term.lexemes}
        for lexeme in sorted(known, key=lambda each: (each not in exact, self.counts[each], each)):
            if chosen and tools + self.counts[lexeme] > pool:
                break
            tools += self.counts[lexeme]
            chosen.append(lexeme)
        return chosen


def current() -> Idf:
    """Return the frequencies of the catalogue as it is now."""
    return at(versioned_cache.current_versions().get("catalogue"))


def at(version: CacheVersion | None) -> Idf:
    """Return the frequencies for a version of the catalogue just read."""
    return _cached.at(version)


def _read() -> Idf:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM graphrag_tool WHERE enabled")
        (tools,) = cursor.fetchone()
        cursor.execute(
            "SELECT word, ndoc FROM ts_stat('SELECT search FROM graphrag_tool WHERE enabled')"
            " WHERE length(word) <= %s ORDER BY ndoc DESC, word LIMIT %s",
            [MAX_WORD_LENGTH, MAX_WORDS],
        )
        return Idf(tools, dict(cursor.fetchall()))


_cached = VersionedCache(_read)
