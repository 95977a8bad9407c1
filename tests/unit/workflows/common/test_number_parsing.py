"""Numbers that come as text."""

import pytest

from workflows.common.number_parsing import parse_natural_number


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("42", 42), ("007", 7), ("9" * 18, 10**18 - 1)],
)
def test_digits_are_a_number(text: str, number: int) -> None:
    assert parse_natural_number(text) == number


@pytest.mark.parametrize(
    "text", ["", " 1", "-1", "1.0", "1_0", "\u00b2", "\u0663", "1\0", "x", "9" * 19]
)
def test_anything_else_is_none(text: str) -> None:
    assert parse_natural_number(text) is None


def test_more_digits_than_wanted_are_none() -> None:
    assert (parse_natural_number("99", digits=2), parse_natural_number("100", digits=2)) == (
        99,
        None,
    )
