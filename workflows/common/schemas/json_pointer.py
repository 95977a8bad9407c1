"""JSON pointers (RFC 6901): `/items/0/name`, "" for the whole value."""

from __future__ import annotations

from collections.abc import Sequence


def to_pointer(path: Sequence[str | int]) -> str:
    """Return the JSON pointer of keys and indexes."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def pointer_keys(text: str) -> list[str]:
    """Return the keys and indexes of a pointer, as texts."""
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]
