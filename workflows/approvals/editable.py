"""Which values of an external action may be changed, by JSON pointers (RFC 6901)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Literal

from workflows.engine.values.bounded_json import canonical

Editable = Literal[True] | Collection[str]


def locked_changes(editable: Editable, before: Any, after: Any) -> list[str]:
    """Return the pointers of the values that differ although `editable` does not allow it."""
    if editable is True:
        return []
    return [each for each in _changed(before, after, "") if not is_editable(editable, each)]


def is_editable(editable: Editable, pointer: str) -> bool:
    """Return whether the value at the pointer may be changed."""
    if editable is True:
        return True
    return any(pointer == each or pointer.startswith(f"{each}/") for each in editable)


def _changed(before: Any, after: Any, pointer: str) -> Iterator[str]:
    """Yield the pointers of the smallest values that differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in (*before, *(key for key in after if key not in before)):
            place = f"{pointer}/{_escaped(key)}"
            if key in before and key in after:
                yield from _changed(before[key], after[key], place)
            else:
                yield place
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _changed(old, new, f"{pointer}/{index}")
    elif canonical(before) != canonical(after):
        yield pointer


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def pointer_path(pointer: str) -> str:
    """Return a pointer as a path of field errors: `/items/0/name` as `items.0.name`."""
    parts = pointer.split("/")[1:]
    return ".".join(part.replace("~1", "/").replace("~0", "~") for part in parts)
