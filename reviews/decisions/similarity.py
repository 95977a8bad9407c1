"""How alike two payloads are: the cosine of what they say where.  Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from math import sqrt
from typing import Any, Final

_WORD: Final = re.compile(r"\w+")
#: Features of one payload; what is beyond them does not count.
_MOST: Final = 2000


def features(value: Any) -> Counter[str]:
    """Counts of places (`path`) and of words at places (`path=word`), list items in one place."""
    found: Counter[str] = Counter()
    for place, text in _leaves(value, ""):
        found[place] += 1
        found.update(f"{place}={word}" for word in _WORD.findall(text.lower())[:_MOST])
        if len(found) > _MOST:
            break
    return found


def likeness(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """0 for nothing in common, 1 for the same."""
    shared = sum(count * other.get(name, 0) for name, count in one.items())
    lengths = sqrt(_square(one) * _square(other))
    return min(1.0, shared / lengths) if lengths else 0.0


def _square(counts: Mapping[str, int]) -> int:
    return sum(count * count for count in counts.values())


def _leaves(value: Any, place: str) -> Iterator[tuple[str, str]]:
    waiting = [(place, value)]
    while waiting:
        at, part = waiting.pop()
        if isinstance(part, dict):
            waiting.extend((f"{at}.{key}", inner) for key, inner in part.items())
        elif isinstance(part, list):
            waiting.extend((f"{at}[]", inner) for inner in part)
        else:
            yield at, str(part)
