"""Places in a JSON value as RFC 6901 writes them: `/items/0/name`, "" for the whole."""

from __future__ import annotations

from collections.abc import Sequence


def to_pointer(path: Sequence[str | int]) -> str:
    """The place of keys and indexes."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def pointer_keys(text: str) -> list[str]:
    """The keys and indexes, as texts, that a pointer names."""
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]
