"""Words of a text: splitting, stop words and stems.

Pure and deterministic. Tool names (``git_log``, ``listAllowedDirectories``) and plain sentences
use the same functions and therefore share one vocabulary, which is also that of PostgreSQL's
``english`` full text search.
"""

import re
from functools import lru_cache

import snowballstemmer  # type: ignore[import-untyped]

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_STEMMER = snowballstemmer.stemmer("english")
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


@lru_cache(maxsize=16_384)
def name_stems(name: str) -> frozenset[str]:
    """Return the stems of a tool's name. Key: the name; bound: 16,384; a constant function."""
    return frozenset(stems(name))
