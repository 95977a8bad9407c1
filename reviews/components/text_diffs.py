"""Side-by-side diff of two texts, by lines and by words.

Uses Myers' algorithm with a bound on the work: `difflib` does not find the shortest edit script,
and takes quadratic time for texts with many equal lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: (is equal, i1, i2, j1, j2): `before[i1:i2]` became `after[j1:j2]`.
Stretch = tuple[bool, int, int, int, int]

#: Equal rows that are shown around changes.
_CONTEXT = 3
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_MAX_EDITS = 400
_MAX_WORK = 2_000_000
_MAX_WORD_DIFFS = 300


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive characters of a line; `kind` is same, removed or added."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class TextRow:
    """One row of the side-by-side view.

    `kind` is same, changed, removed, added or fold. A fold stands for `folded` equal rows that are
    not shown.
    """

    kind: str
    before: tuple[Segment, ...] = ()
    after: tuple[Segment, ...] = ()
    folded: int = 0


def text_segments(before: str, after: str) -> tuple[TextRow, ...]:
    """Return all rows of both texts, with paired lines and word diffs of changed pairs.

    Work is bounded: texts with little in common become one replaced block.
    """
    old, new = before.split("\n"), after.split("\n")
    rows: list[TextRow] = []
    words_left = _MAX_WORD_DIFFS
    for is_equal, i1, i2, j1, j2 in stretches(old, new):
        if is_equal:
            rows.extend(map(_same_row, old[i1:i2]))
            continue
        pairs = min(i2 - i1, j2 - j1)
        for n in range(pairs):
            left, right = old[i1 + n], new[j1 + n]
            sides = _word_sides(left, right) if words_left > n else _whole_sides(left, right)
            rows.append(TextRow("changed", *sides))
        words_left -= pairs
        rows.extend(
            TextRow("removed", before=(Segment("removed", old[n]),)) for n in range(i1 + pairs, i2)
        )
        rows.extend(
            TextRow("added", after=(Segment("added", new[n]),)) for n in range(j1 + pairs, j2)
        )
    return tuple(rows)


def folded(rows: Sequence[TextRow]) -> tuple[TextRow, ...]:
    """Replace long runs of equal rows by a fold, with `_CONTEXT` rows around changes."""
    near = bytearray(len(rows))
    for index, row in enumerate(rows):
        if row.kind != "same":
            start, end = max(0, index - _CONTEXT), min(len(rows), index + _CONTEXT + 1)
            near[start:end] = b"\x01" * (end - start)
    result: list[TextRow] = []
    hidden: list[TextRow] = []
    for row, shown in zip(rows, near, strict=True):
        if shown:
            result.extend(_fold(hidden))
            hidden = []
            result.append(row)
        else:
            hidden.append(row)
    return (*result, *_fold(hidden))


def stretches(before: Sequence[str], after: Sequence[str]) -> Iterator[Stretch]:
    """Yield equal and different stretches in order; together they cover both sequences."""
    start = 0
    shortest = min(len(before), len(after))
    while start < shortest and before[start] == after[start]:
        start += 1
    end = 0
    while end < shortest - start and before[-1 - end] == after[-1 - end]:
        end += 1
    middle_before, middle_after = len(before) - end, len(after) - end
    pairs = [(n, n) for n in range(start)]
    inner = _matches(before[start:middle_before], after[start:middle_after])
    pairs += [(start + i, start + j) for i, j in inner]
    pairs += [(middle_before + n, middle_after + n) for n in range(end)]
    yield from _grouped(pairs, len(before), len(after))


def _grouped(pairs: list[tuple[int, int]], before: int, after: int) -> Iterator[Stretch]:
    i = j = at = 0
    while at < len(pairs):
        next_i, next_j = pairs[at]
        if (next_i, next_j) != (i, j):
            yield (False, i, next_i, j, next_j)
        length = 1
        while at + length < len(pairs) and pairs[at + length] == (next_i + length, next_j + length):
            length += 1
        i, j = next_i + length, next_j + length
        yield (True, next_i, i, next_j, j)
        at += length
    if (i, j) != (before, after):
        yield (False, i, before, j, after)


def _matches(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """Return the matching pairs of Myers' shortest edit script; [] beyond the bound."""
    if not before or not after:
        return []
    furthest = {1: 0}
    history: list[dict[int, int]] = []
    for edits in range(min(_MAX_EDITS, _MAX_WORK // (len(before) + len(after))) + 1):
        history.append(dict(furthest))
        for diagonal in range(-edits, edits + 1, 2):
            x = _step(furthest, diagonal, edits)
            while x < len(before) and x - diagonal < len(after):
                if before[x] != after[x - diagonal]:
                    break
                x += 1
            furthest[diagonal] = x
            if x >= len(before) and x - diagonal >= len(after):
                return _walked_back(history, len(before), len(after))
    return []


def _step(furthest: dict[int, int], diagonal: int, edits: int) -> int:
    down = diagonal == -edits or (
        diagonal != edits and furthest[diagonal - 1] < furthest[diagonal + 1]
    )
    return furthest[diagonal + 1] if down else furthest[diagonal - 1] + 1


def _walked_back(history: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for edits in range(len(history) - 1, -1, -1):
        furthest, diagonal = history[edits], x - y
        start = _step(furthest, diagonal, edits)
        while x > start and y > start - diagonal:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        down = start == furthest.get(diagonal + 1) and (
            diagonal == -edits
            or (diagonal != edits and furthest[diagonal - 1] < furthest[diagonal + 1])
        )
        x, y = (start, start - diagonal - 1) if down else (start - 1, start - diagonal)
    return pairs[::-1]


def _word_sides(before: str, after: str) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    left: list[Segment] = []
    right: list[Segment] = []
    for is_equal, i1, i2, j1, j2 in stretches(old, new):
        removed, added = "".join(old[i1:i2]), "".join(new[j1:j2])
        if removed:
            left.append(Segment("same" if is_equal else "removed", removed))
        if added:
            right.append(Segment("same" if is_equal else "added", added))
    return tuple(left), tuple(right)


def _whole_sides(before: str, after: str) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    return (Segment("removed", before),), (Segment("added", after),)


def _same_row(line: str) -> TextRow:
    segments = (Segment("same", line),)
    return TextRow("same", segments, segments)


def _fold(hidden: list[TextRow]) -> list[TextRow]:
    return hidden if len(hidden) < 3 else [TextRow("fold", folded=len(hidden))]
