"""Parse natural numbers from URLs and forms."""

from __future__ import annotations


def parse_natural_number(text: str, digits: int = 18) -> int | None:
    """Return the number if `text` has at most `digits` decimal digits and nothing else, or None.

    18 digits always fit a bigint primary key.
    """
    fits = text.isascii() and text.isdigit() and len(text) <= digits
    return int(text) if fits else None
