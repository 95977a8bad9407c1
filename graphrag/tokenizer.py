"""Words of a text: splitting, stop words, stems and synonym groups.

Pure and deterministic. Tool names (``git_log``, ``listAllowedDirectories``) and plain sentences
use the same functions and therefore share one vocabulary, which is also that of PostgreSQL's
``english`` full text search.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

import snowballstemmer  # type: ignore[import-untyped]

from graphrag.thesaurus import ACTION_KINDS, QUESTION_WORDS, SYNONYM_GROUPS

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_STEMMER = snowballstemmer.stemmer("english")
_QUESTION_WORD_WEIGHT = 0.5
_MIN_PART_LENGTH = 3

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
    """Return the lower-case words of ``text``; split camelCase, snake_case and kebab-case.

    A name with a very short part stays whole: ``arXiv``, ``macOS``.
    """
    found: list[str] = []
    for word in _WORD.findall(text):
        parts = _CAMEL.sub(" ", word).lower().split()
        found.extend(parts if min(map(len, parts)) >= _MIN_PART_LENGTH else [word.lower()])
    return found


def spaced(name: str) -> str:
    """Return a name or text as words: ``git.git_log`` -> ``git git log``."""
    return " ".join(words(name))


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the English (Porter 2) stem. Key: the word; bound: 65,536; a constant function."""
    found: str = _STEMMER.stemWord(word)
    return found


def stem_set(listed: str) -> frozenset[str]:
    """Return the stems of space-separated words."""
    return frozenset(map(stem, listed.split()))


def content_words(text: str) -> list[str]:
    """Return the words of ``text`` that are no stop words, or all words when none is left."""
    found = words(text)
    return [word for word in found if word not in STOP_WORDS] or found


def stems(text: str) -> list[str]:
    """Return the stems of the content words, in order, with repetitions."""
    return [stem(word) for word in content_words(text)]


def _label(word: str) -> str:
    return f"{stem(word)}0"


def _groups() -> Mapping[str, frozenset[str]]:
    lines = [line.split() for line in SYNONYM_GROUPS.strip().split("\n")]
    groups: dict[str, set[str]] = {}
    for line in lines:
        groups.setdefault(_label(line[0]), set()).update(stem(word) for word in line)
    return MappingProxyType({name: frozenset(members) for name, members in groups.items()})


GROUPS = _groups()
"""Label of a synonym group -> its stems. The label is the first stem followed by ``0``: full text
search keeps it unchanged, and no word has it as its stem."""


def _groups_by_stem() -> Mapping[str, tuple[str, ...]]:
    table: dict[str, list[str]] = {}
    for name, members in GROUPS.items():
        for member in members:
            table.setdefault(member, []).append(name)
    return MappingProxyType({member: tuple(sorted(names)) for member, names in table.items()})


GROUPS_BY_STEM = _groups_by_stem()
"""Stem -> labels of the groups it belongs to."""


_KIND_BY_STEM = MappingProxyType(
    {stem(word): kind for kind, line in ACTION_KINDS.items() for word in line.split()}
)


def action(text: str) -> str | None:
    """Return ``read``, ``change`` or ``delete`` by the first word of such a kind, or None."""
    kinds = (_KIND_BY_STEM.get(stem(word)) for word in words(text))
    return next((kind for kind in kinds if kind), None)


@lru_cache(maxsize=16_384)
def name_stems(name: str) -> frozenset[str]:
    """Return the stems of a tool's name. Key: the name; bound: 16,384; a constant function."""
    return frozenset(stems(name))


@lru_cache(maxsize=16_384)
def name_action(name: str) -> str | None:
    """Return the action of a tool's name. Key: the name; bound: 16,384; a constant function."""
    return action(name)


def index_text(text: str) -> str:
    """Return the text for the full text index: its words, then the labels of synonym groups."""
    found = words(text)
    groups = {label for stem_ in stems(text) for label in GROUPS_BY_STEM.get(stem_, ())}
    return " ".join((*found, *sorted(groups)))


def query_groups(text: str) -> dict[str, float]:
    """Return the synonym groups of a query with their weights (0 to 1).

    A word in several groups counts less in each; a question word counts for tools that read.
    """
    shares: dict[str, float] = {}
    for found in stems(text):
        names = GROUPS_BY_STEM.get(found, ())
        for name in names:
            shares[name] = max(shares.get(name, 0.0), len(names) ** -0.5)
    for word in words(text):
        for group in QUESTION_WORDS.get(word, ()):
            name = _label(group)
            shares[name] = max(shares.get(name, 0.0), _QUESTION_WORD_WEIGHT)
    return shares
