"""How rare each word is in the catalogue, kept in memory until the catalogue changes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log

from django.db import connection

from graphrag import text, versioned_cache
from graphrag.versioned_cache import Kept, Seen

_GROUP = 1.0
_UNKNOWN = 0.5
_ALIKE = 0.8


@dataclass(frozen=True, slots=True)
class Term:
    """A word of a query by its stem, or a group of like meaning by its label (``word`` empty)."""

    lexeme: str
    weight: float
    word: str = ""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Lexeme -> number of enabled tools whose text has it, and the number of tools."""

    tools: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)

    def rarity(self, lexeme: str) -> float:
        """Inverse document frequency, at least 0; 1 for everything in an empty catalogue."""
        if not self.tools:
            return 1.0
        count = self.counts.get(lexeme, 0)
        return log(1.0 + (self.tools - count + 0.5) / (count + 0.5))

    def terms(self, query: str) -> list[Term]:
        """What to look for: the query's words, and their groups of like meaning at a discount."""
        words = {text.stem(word): word for word in reversed(text.telling_words(query))}
        found = [Term(stem, self.rarity(stem), word) for stem, word in words.items()]
        for label, share in text.query_groups(query).items():
            found.append(Term(label, _GROUP * share * self.rarity(label)))
        return found

    def telling(self, terms: Iterable[Term], pool: int) -> list[str]:
        """Lexemes to choose candidates by: the rarest, until about ``pool`` tools have one."""
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
        """Share of the query's words, by rarity, that a text with these lexemes has: 0 to 1.

        A word met by one of like meaning counts most of itself; one that no tool has, half.
        """
        met = set(lexemes)
        total = covered = 0.0
        for term in terms:
            if not term.word:
                continue
            weight = term.weight * (1.0 if term.lexeme in self.counts else _UNKNOWN)
            total += weight
            if term.lexeme in met:
                covered += weight
            elif not met.isdisjoint(text.MEMBERSHIPS.get(term.lexeme, ())):
                covered += weight * _ALIKE
        return covered / total if total else 0.0

    def asked(self, name: str, terms: Iterable[Term]) -> float:
        """Share of a name's words, by rarity, that the query asks for: 0 to 1.

        A word of like meaning counts as asked for; a name without words says nothing unasked.
        """
        wanted = {term.lexeme for term in terms}
        total = met = 0.0
        for stem in text.name_stems(name):
            weight = self.rarity(stem)
            total += weight
            if stem in wanted or not wanted.isdisjoint(text.MEMBERSHIPS.get(stem, ())):
                met += weight
        return met / total if total else 1.0

    def matched(self, terms: Sequence[Term], lexemes: Iterable[str]) -> tuple[str, ...]:
        """The query's words a text has, the rarest first."""
        met = set(lexemes)
        words = [term for term in terms if term.word and term.lexeme in met]
        return tuple(term.word for term in sorted(words, key=lambda term: -term.weight))


def current() -> Lexicon:
    """The lexicon of the catalogue as it is now."""
    return at(versioned_cache.present().get("catalogue"))


def at(seen: Seen | None) -> Lexicon:
    """The lexicon of a revision of the catalogue just looked at."""
    return _kept.at(seen)


def _read() -> Lexicon:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM graphrag_tool WHERE enabled")
        (tools,) = cursor.fetchone()
        cursor.execute(
            "SELECT word, ndoc FROM ts_stat('SELECT search FROM graphrag_tool WHERE enabled')"
        )
        return Lexicon(tools, dict(cursor.fetchall()))


_kept = Kept(_read)
