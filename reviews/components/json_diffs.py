"""Structural diff of two JSON values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from workflows.common.schemas.json_pointer import to_pointer
from workflows.engine.values.bounded_json import JSON, canonical, path_text

from .text_diffs import Segment, TextRow, folded, text_segments

__all__ = [
    "MISSING",
    "Change",
    "Path",
    "Segment",
    "TextRow",
    "apply",
    "diff",
    "folded",
    "same",
    "text_segments",
]

#: Keys and 0-based indexes from the root down.
Path = tuple[str | int, ...]

_LONG_TEXT: Final = 60


class Missing(Enum):
    """Marks an absent value, which differs from null."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING


@dataclass(frozen=True, slots=True)
class Change:
    """One difference at `path`; `kind` is added, removed or changed.

    `before` is MISSING for what was added, `after` for what was removed. Paths of added and
    changed values are places in the new value, paths of removed ones places in the old. Pages
    show `label` instead of the path, where the place has one.
    """

    path: Path
    kind: str
    before: JSON
    after: JSON
    label: str = ""

    @property
    def dotted(self) -> str:
        """The readable path: `items[3].name`."""
        return path_text(self.path)

    @property
    def pointer(self) -> str:
        """The path as a JSON pointer: `/items/3/name`."""
        return to_pointer(self.path)

    @property
    def is_long_text(self) -> bool:
        """Whether the change is best shown as a side-by-side text diff."""
        texts = (self.before, self.after)
        return all(isinstance(text, str) for text in texts) and any(
            len(text) > _LONG_TEXT or "\n" in text for text in texts
        )

    @property
    def rows(self) -> tuple[TextRow, ...]:
        """The side-by-side text diff with equal parts folded; () if the values are not texts."""
        if not isinstance(self.before, str) or not isinstance(self.after, str):
            return ()
        return folded(text_segments(self.before, self.after))


def same(left: JSON, right: JSON) -> bool:
    """Compare as JSON: 1 and 1.0 are equal, 1 and true are not; MISSING equals only itself."""
    if left is right:
        return True
    if left is MISSING or right is MISSING:
        return False
    return canonical(left) == canonical(right)


def diff(before: JSON, after: JSON) -> tuple[Change, ...]:
    """Return all changes in the order of `before`, additions last; () for equal values."""
    return tuple(_diff((), before, after))


def apply(before: JSON, changes: Iterable[Change]) -> JSON:
    """Return a copy of `before` with the changes applied; `apply(a, diff(a, b))` equals b."""
    listed = list(changes)
    whole = [deepcopy(before)]
    for change in listed:
        if change.kind != "removed":
            _put(whole, change)
    for change in reversed(listed):
        if change.kind == "removed":
            holder = _holder(whole, change.path)
            del holder[change.path[-1]]
    return whole[0]


def _diff(path: Path, before: JSON, after: JSON) -> Iterator[Change]:
    if same(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _diff_objects(path, before, after)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _diff_arrays(path, before, after)
    else:
        yield Change(path, "changed", before, after)


def _diff_objects(path: Path, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Change]:
    for key, old in before.items():
        if key in after:
            yield from _diff((*path, key), old, after[key])
        else:
            yield Change((*path, key), "removed", old, MISSING)
    for key, new in after.items():
        if key not in before:
            yield Change((*path, key), "added", MISSING, new)


def _diff_arrays(path: Path, before: list[Any], after: list[Any]) -> Iterator[Change]:
    """Pair items from both ends; the unpaired items in the middle were added or removed."""
    old, new = list(map(canonical, before)), list(map(canonical, after))
    shortest = min(len(old), len(new))
    start = next((n for n in range(shortest) if old[n] != new[n]), shortest)
    rest = shortest - start
    end = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    paired = shortest - end
    for index in range(start, paired):
        yield from _diff((*path, index), before[index], after[index])
    for index in range(paired, len(before) - end):
        yield Change((*path, index), "removed", before[index], MISSING)
    for index in range(paired, len(after) - end):
        yield Change((*path, index), "added", MISSING, after[index])


def _put(whole: list[JSON], change: Change) -> None:
    holder, value = _holder(whole, change.path), deepcopy(change.after)
    place = change.path[-1] if change.path else 0
    if change.kind == "added" and isinstance(holder, list):
        holder.insert(int(place), value)
    else:
        holder[place] = value


def _holder(whole: list[JSON], path: Path) -> Any:
    holder: Any = whole
    for part in (0, *path)[: len(path)]:
        holder = holder[part]
    return holder
