"""Numbers that come as text: in addresses, forms and names of places."""

from __future__ import annotations


def parse_natural_number(text: str, digits: int = 18) -> int | None:
    """The number that decimal digits say; None for any other text, and for more digits.

    18 digits always fit the number of a row; no row has the number 0.
    """
    fits = text.isascii() and text.isdigit() and len(text) <= digits
    return int(text) if fits else None
