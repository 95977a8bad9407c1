"""Rows of conditions: the expression evaluates as the rows say, for every text and number."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.http import QueryDict
from hypothesis import given
from hypothesis import strategies as st

from reviews.authoring import rule_rows
from reviews.authoring.rule_rows import BadRow, Row, Rows, expression_of, rows_of, value_text
from workflows.engine.values.expressions import evaluate

HOSTILE = ["`", "'", '"', "\\", "\\`", "`]", "&&", "${x}", "\n", "\u2028", "é", "😀", "null", "1"]
TEXTS = st.one_of(
    st.sampled_from(HOSTILE),
    st.lists(st.sampled_from(HOSTILE), max_size=4).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
NUMBERS = st.one_of(
    st.integers(-(10**15), 10**15), st.floats(allow_nan=False, allow_infinity=False, width=32)
)
SCALARS = st.one_of(TEXTS, NUMBERS, st.booleans(), st.none())
KEYS = TEXTS.filter(bool)
PATHS = st.lists(
    st.one_of(st.sampled_from(["inputs", "output", "a"]), KEYS), min_size=1, max_size=3
)
ROWS = st.one_of(
    st.builds(Row, PATHS.map(tuple), st.sampled_from(["is", "is_not"]), SCALARS),
    st.builds(Row, PATHS.map(tuple), st.sampled_from(["greater", "less"]), NUMBERS),
    st.builds(
        Row, PATHS.map(tuple), st.sampled_from(["contains", "starts_with"]), TEXTS.filter(bool)
    ),
    st.builds(Row, PATHS.map(tuple), st.just("one_of"), st.lists(SCALARS, min_size=1, max_size=3)),
    st.builds(Row, PATHS.map(tuple), st.just("exists")),
)
VALUES = st.one_of(SCALARS, st.lists(TEXTS, max_size=3), st.dictionaries(KEYS, SCALARS, max_size=2))


def at(document: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def holds(row: Row, document: Any) -> bool:
    """Evaluate a row in Python, without JMESPath."""
    found, value = at(document, row.path), row.value
    match row.operator:
        case "is":
            return equal(found, value)
        case "is_not":
            return not equal(found, value)
        case "greater":
            return is_number(found) and found > value
        case "less":
            return is_number(found) and found < value
        case "contains":
            return isinstance(found, str | list) and value in found
        case "starts_with":
            return isinstance(found, str) and found.startswith(value)
        case "one_of":
            return any(equal(found, each) for each in value)
    return found is not None


@st.composite
def rows_and_document(draw: st.DrawFn) -> tuple[Rows, Any]:
    rows = Rows(
        tuple(draw(st.lists(ROWS, min_size=1, max_size=4))), draw(st.sampled_from(["all", "any"]))
    )
    document: dict[str, Any] = {}
    for row in rows.rows:
        # Often the value of the row itself, so that conditions hold.
        own = row.value if not isinstance(row.value, list) else draw(st.sampled_from(row.value))
        target: Any = document
        for key in row.path[:-1]:
            target = target.setdefault(key, {})
            if not isinstance(target, dict):
                break
        if isinstance(target, dict):
            target[row.path[-1]] = draw(st.one_of(st.just(own), VALUES))
    return rows, document


@given(rows_and_document())
def test_the_expression_evaluates_as_the_rows_say(case: tuple[Rows, Any]) -> None:
    rows, document = case
    every = [holds(row, document) for row in rows.rows]
    expected = all(every) if rows.match == "all" else any(every)
    assert bool(evaluate(expression_of(rows), document)) is expected


@given(rows_and_document())
def test_rows_come_back_from_their_expression(case: tuple[Rows, Any]) -> None:
    rows, document = case
    expression = expression_of(rows)
    again = rows_of(expression)
    # Alternatives of one field come back as one row, which means the same.
    assert again is not None
    assert bool(evaluate(expression_of(again), document)) is bool(evaluate(expression, document))


@given(ROWS)
def test_a_row_survives_its_texts(row: Row) -> None:
    read = rule_rows.row_from_texts(rule_rows.path_text(row.path), row.operator, value_text(row))
    assert read.path == row.path
    assert json.dumps(read.value) == json.dumps(row.value)


@pytest.mark.parametrize(
    ("rows", "expression"),
    [
        (Rows((Row(("inputs", "a"), "is", "x"),)), 'inputs.a == `"x"`'),
        (Rows((Row(("inputs", "a b"), "is_not", 1),)), 'inputs."a b" != `1`'),
        (Rows((Row(("a",), "exists"),)), "a != `null`"),
        (
            Rows((Row(("a",), "greater", 1), Row(("b",), "one_of", [1, "x"]))),
            "(type(a) == 'number' && a > `1`) && (b == `1` || b == `\"x\"`)",
        ),
        (Rows((Row(("a",), "is", "`"),)), 'a == `"\\u0060"`'),
    ],
)
def test_expressions(rows: Rows, expression: str) -> None:
    assert expression_of(rows) == expression
    assert rows_of(expression) == rows


@pytest.mark.parametrize(
    "expression",
    [
        "inputs.a",
        "a > b",
        "length(a) > `1`",
        "a == `1` && b == `2` || c == `3`",
        "!a",
        "(",
        "a[0] == `1`",
    ],
)
def test_other_expressions_stay_texts(expression: str) -> None:
    assert rows_of(expression) is None


@pytest.mark.parametrize(
    ("field", "operator", "text"),
    [
        ("", "is", "1"),
        ("a..b", "is", "1"),
        ("a.", "is", "1"),
        (".a", "is", "1"),
        ("a", "greater", "x"),
        ("a", "less", "true"),
        ("a", "contains", ""),
        ("a", "one_of", " , "),
        ("a", "like", "x"),
        ('"a', "is", "1"),
        ('"a"b', "is", "1"),
    ],
)
def test_rows_that_cannot_be_read(field: str, operator: str, text: str) -> None:
    if field == '"a':
        assert rule_rows.row_from_texts(field, operator, text).path == ('"a',)
        return
    with pytest.raises(BadRow):
        rule_rows.row_from_texts(field, operator, text)


def test_posted_fields() -> None:
    data = QueryDict(mutable=True)
    assert rule_rows.posted_expression(data, "k", "a == `1`") == "a == `1`"
    data.update({"k.mode": "any", "k.0.field": "inputs.a", "k.0.operator": "is", "k.0.value": "x"})
    data.update({"k.2.field": "b", "k.2.operator": "exists", "k.2.value": ""})
    assert rule_rows.posted_expression(data, "k", "") == 'inputs.a == `"x"` || b != `null`'
    data.update({"k": "length(a) > `1`"})
    data["k.mode"] = "text"
    assert rule_rows.posted_expression(data, "k", "") == "length(a) > `1`"
    data["k.mode"] = ""
    assert rule_rows.posted_expression(data, "k", "a") == ""


def test_rows_that_did_not_change_keep_the_expression() -> None:
    data = QueryDict(mutable=True)
    data.update({"k.mode": "all", "k.0.field": "a", "k.0.operator": "is", "k.0.value": "x"})
    assert rule_rows.posted_expression(data, "k", "a=='x'") == "a=='x'"
