"""A schema read off a value: the value fits it, other shapes do not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.common.schemas import infer_schema, infer_type, schema_errors

TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_the_value_matches_its_inferred_schema(value: Any) -> None:
    assert schema_errors(infer_schema(value), value) == []
    assert schema_errors(infer_type(value), value) == []


@pytest.mark.parametrize(
    ("value", "other", "path"),
    [
        ({"a": 1}, {"a": "x"}, "a"),
        ({"a": 1}, {}, "a"),
        ({"a": {"b": [1]}}, {"a": {"b": ["x"]}}, "a.b[0]"),
        ("text", 1, ""),
    ],
)
def test_another_shape_does_not_match(value: Any, other: Any, path: str) -> None:
    assert [each.path for each in schema_errors(infer_schema(value), other)] == [path]


@pytest.mark.parametrize(
    ("value", "other"),
    [({"a": 1}, {"a": 2.5}), ({"a": None}, {"a": "x"}), ([1, "x"], [None]), ([], [1])],
)
def test_the_schema_leaves_unknown_parts_open(value: Any, other: Any) -> None:
    assert schema_errors(infer_schema(value), other) == []


def test_a_container_type_does_not_fix_its_items() -> None:
    assert infer_type({"a": 1}) == {"type": "object"}
    assert infer_type([1]) == {"type": "array"}
