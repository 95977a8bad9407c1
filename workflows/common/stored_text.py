"""Texts of other programs, as PostgreSQL can store them."""

from __future__ import annotations


def storable(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text, without NUL and lone surrogates.

    PostgreSQL refuses both: the step that stores the text would fail each time that it is repeated.
    """
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:limit]


def printable(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text, without control characters."""
    return "".join(each for each in text if each.isprintable())[:limit]
