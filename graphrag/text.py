"""Words of a text: splitting, stop words, stems and groups of like meaning.

Pure and deterministic. Tool names (``git_log``, ``listAllowedDirectories``) and plain sentences
go through the same functions, so that both end in the same vocabulary, which is also the one of
PostgreSQL's ``english`` full text search.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

import snowballstemmer  # type: ignore[import-untyped]

from graphrag.thesaurus import KINDS_OF_ACTION, LIKE_MEANINGS, QUESTION_WORDS

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_STEMMER = snowballstemmer.stemmer("english")
_QUESTION_SHARE = 0.5
_SHORTEST_PART = 3

_STOP_WORDS = """
a about after all also am an and any are as at be because been before being both but by can
could did do does doing during each etc every for from further had has have having he her here
hers him his how i if in into is it its itself just kindly let like may me might more most must
my need needs no nor not now of off on once only onto or other our out over own per please
same shall she should so some such than that the their them then there these they this those
through to too under until up upon us use used uses using very via want wants was we were what
when where which while who whom whose why will with within without would you your yours e g ie
eg tool tools given based one two three four five
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


def words(text: str) -> list[str]:
    """Lower-case words of ``text`` in order; camelCase, snake_case and kebab-case are split.

    A name with a very short part stays whole: ``arXiv``, ``macOS``.
    """
    found: list[str] = []
    for word in _WORD.findall(text):
        parts = _CAMEL.sub(" ", word).lower().split()
        found.extend(parts if min(map(len, parts)) >= _SHORTEST_PART else [word.lower()])
    return found


def spaced(name: str) -> str:
    """A name or text as words: ``git.git_log`` -> ``git git log``."""
    return " ".join(words(name))


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The English (Porter 2) stem."""
    found: str = _STEMMER.stemWord(word)
    return found


def stem_set(listed: str) -> frozenset[str]:
    """Stems of all the words of a list, as a set."""
    return frozenset(map(stem, listed.split()))


def telling_words(text: str) -> list[str]:
    """Words of ``text`` that carry meaning, in order; all words when none does."""
    found = words(text)
    return [word for word in found if word not in STOP_WORDS] or found


def stems(text: str) -> list[str]:
    """Stems of the words that carry meaning, in order, repetitions kept."""
    return [stem(word) for word in telling_words(text)]


def _label(word: str) -> str:
    return f"{stem(word)}0"


def _groups() -> Mapping[str, frozenset[str]]:
    lines = [line.split() for line in LIKE_MEANINGS.strip().split("\n")]
    groups: dict[str, set[str]] = {}
    for line in lines:
        groups.setdefault(_label(line[0]), set()).update(stem(word) for word in line)
    return MappingProxyType({name: frozenset(members) for name, members in groups.items()})


GROUPS = _groups()
"""Label of a group of like meaning -> the stems in it; the label is its first stem and ``0``,
a word that full text search keeps as it is and that no plain word is stemmed to."""


def _memberships() -> Mapping[str, tuple[str, ...]]:
    table: dict[str, list[str]] = {}
    for name, members in GROUPS.items():
        for member in members:
            table.setdefault(member, []).append(name)
    return MappingProxyType({member: tuple(sorted(names)) for member, names in table.items()})


MEMBERSHIPS = _memberships()
"""Stem -> labels of the groups it belongs to."""


_KINDS = MappingProxyType(
    {stem(word): kind for kind, line in KINDS_OF_ACTION.items() for word in line.split()}
)


def action(text: str) -> str | None:
    """``read``, ``change`` or ``delete``, by the first word that says so; None if none does."""
    kinds = (_KINDS.get(stem(word)) for word in words(text))
    return next((kind for kind in kinds if kind), None)


@lru_cache(maxsize=16_384)
def name_stems(name: str) -> frozenset[str]:
    """As ``stems``, for a tool's name: every search asks the same ones again."""
    return frozenset(stems(name))


@lru_cache(maxsize=16_384)
def name_action(name: str) -> str | None:
    """As ``action``, for a tool's name."""
    return action(name)


def indexed(text: str) -> str:
    """The text as it is indexed: its words, and after them the groups of like meaning."""
    found = words(text)
    groups = {label for stem_ in stems(text) for label in MEMBERSHIPS.get(stem_, ())}
    return " ".join((*found, *sorted(groups)))


def query_groups(text: str) -> dict[str, float]:
    """Groups of like meaning a question touches, with their share (0 to 1).

    A word in several groups counts less in each; a question word asks for a reading tool.
    """
    shares: dict[str, float] = {}
    for found in stems(text):
        names = MEMBERSHIPS.get(found, ())
        for name in names:
            shares[name] = max(shares.get(name, 0.0), len(names) ** -0.5)
    for word in words(text):
        for group in QUESTION_WORDS.get(word, ()):
            name = _label(group)
            shares[name] = max(shares.get(name, 0.0), _QUESTION_SHARE)
    return shares
