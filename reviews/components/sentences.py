"""Sentences that are made and kept in English, in the language of whoever reads them on a page.

What is stored or sent to programs (why a run stopped, a refusal, what code may do) is English,
whoever reads it. Pages pass it through `in_language`, which knows the sentences of
reviews.components.told and puts the parts that vary back in. A sentence that is not listed is shown as it is.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from django.utils.translation import get_language, gettext

from .told import TOLD

_PLACE: Final = re.compile(r"%\\\((\w+)\\\)s")
#: Nobody needs the translation of what is longer.
_LONGEST: Final = 2_000


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """What each sentence looks like, the most exact ones first."""
    found = []
    for sentence in sorted(TOLD, key=lambda each: -len(re.sub(r"%\(\w+\)s", "", each))):
        looks = _PLACE.sub(r"(?P<\1>.+?)", re.escape(sentence))
        found.append((re.compile(looks, re.DOTALL), sentence))
    return tuple(found)


def in_language(text: str) -> str:
    """`text` in the language of the page where it is one of TOLD, and as it is otherwise."""
    if not text or len(text) > _LONGEST or get_language() in (None, "en"):
        return text
    whole = _translated(text)
    if whole is not None:
        return whole
    # Why a review opened, and what a rule that might have spared it said.
    first, apart, second = text.partition("; ")
    opened = _translated(first) if apart else None
    return text if opened is None else f"{opened}; {_translated(second) or second}"


def _translated(text: str) -> str | None:
    """None where it is none of TOLD."""
    for pattern, sentence in _patterns():
        match = pattern.fullmatch(text)
        if match is not None:
            return gettext(sentence) % match.groupdict() if match.groupdict() else gettext(sentence)
    return None
