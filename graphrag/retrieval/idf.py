"""Inverse document frequency (IDF) of words in the catalogue, cached until it changes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log

from django.db import connection

from graphrag import tokenizer, versioned_cache
from graphrag.versioned_cache import CacheVersion, VersionedCache

_GROUP_WEIGHT = 1.0
_UNKNOWN_WORD_FACTOR = 0.5
_SYNONYM_FACTOR = 0.8


@dataclass(frozen=True, slots=True)
class Term:
    """A query word by its stem, or a synonym group by its label (``word`` is empty)."""

    lexeme: str
    weight: float
    word: str = ""


@dataclass(frozen=True, slots=True)
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

    def terms(self, query: str) -> list[Term]:
        """Return search terms: the words of the query, and their synonym groups at lower weight."""
        words = {tokenizer.stem(word): word for word in reversed(tokenizer.content_words(query))}
        found = [Term(stem, self.rarity(stem), word) for stem, word in words.items()]
        for label, share in tokenizer.query_groups(query).items():
            found.append(Term(label, _GROUP_WEIGHT * share * self.rarity(label)))
        return found

    def selective_lexemes(self, terms: Iterable[Term], pool: int) -> list[str]:
        """Return the rarest lexemes that together select about ``pool`` tools."""
        chosen: list[str] = []
        tools = 0
        known = {term.lexeme for term in terms if term.lexeme in self.counts}
        for lexeme in sorted(known, key=lambda lexeme: (self.counts[lexeme], lexeme)):
            if chosen and tools + self.counts[lexeme] > pool:
                break
            tools += self.counts[lexeme]
            chosen.append(lexeme)
        return chosen

    def coverage(self, terms: Sequence[Term], lexemes: Iterable[str]) -> float:
        """Return the IDF-weighted share of the query's words in a text with these lexemes, 0 to 1.

        A word that only a synonym matches counts 0.8; a word that no tool has counts half in the
        total.
        """
        met = set(lexemes)
        total = covered = 0.0
        for term in terms:
            if not term.word:
                continue
            weight = term.weight * (1.0 if term.lexeme in self.counts else _UNKNOWN_WORD_FACTOR)
            total += weight
            if term.lexeme in met:
                covered += weight
            elif not met.isdisjoint(tokenizer.GROUPS_BY_STEM.get(term.lexeme, ())):
                covered += weight * _SYNONYM_FACTOR
        return covered / total if total else 0.0

    def name_coverage(self, name: str, terms: Iterable[Term]) -> float:
        """Return the IDF-weighted share of a tool name's words that the query has, 0 to 1.

        Synonyms count as matches; a name without words gives 1.
        """
        wanted = {term.lexeme for term in terms}
        total = met = 0.0
        for stem in tokenizer.name_stems(name):
            weight = self.rarity(stem)
            total += weight
            if stem in wanted or not wanted.isdisjoint(tokenizer.GROUPS_BY_STEM.get(stem, ())):
                met += weight
        return met / total if total else 1.0

    def matched_words(self, terms: Sequence[Term], lexemes: Iterable[str]) -> tuple[str, ...]:
        """Return the query's words in a text, rarest first."""
        met = set(lexemes)
        words = [term for term in terms if term.word and term.lexeme in met]
        return tuple(term.word for term in sorted(words, key=lambda term: -term.weight))


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
        )
        return Idf(tools, dict(cursor.fetchall()))


_cached = VersionedCache(_read)
