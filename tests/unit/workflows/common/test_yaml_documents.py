"""JSON as YAML: nothing is lost, and nothing but JSON comes in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.common.yaml_documents import MAX_LENGTH, dump, load
from workflows.engine.bounded_json import BoundedJSONError

#: Strings that some version of YAML reads as something else.
TRICKY = (
    "no", "No", "on", "y", "yes", "true", "True", "null", "~", "", " ", "1e3", "1.0", "0x1f",
    "010", "1_000", "12:30:45", "2026-01-31", "2026-01-31T10:00:00Z", ".inf", ".nan", "-", "- a",
    "a: b", "# c", "<<", "=", "*a", "&a", "!!int 1", "|", ">", "%TAG", "@x", "`x`", "'", '"', "{",
    "a\nb", "a\nb\n", "a\n\n\nb", " a\nb", "a \nb", "\ta", "a\r\nb", "\x85", "\u2028", "\ufeff",
    "---", "...", "a\n---\nb", "?", "? a", "é\nü", "\U0001f600",
)  # fmt: skip
TEXTS = st.sampled_from(TRICKY) | st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), max_size=40
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_json_becomes_yaml_and_json_again(value: Any) -> None:
    assert json.dumps(load(dump(value))) == json.dumps(value)


@pytest.mark.parametrize("text", TRICKY)
def test_tricky_texts_stay_texts(text: str) -> None:
    assert load(dump({text: [text]})) == {text: [text]}


def test_it_reads_as_a_person_would_write_it() -> None:
    text = "name: no\nsince: 2026-01-31\ncount: 3\nshare: 1e-2\nempty:\non: [a, true]\n"
    assert load(text) == {
        "name": "no",
        "since": "2026-01-31",
        "count": 3,
        "share": 0.01,
        "empty": None,
        "on": ["a", True],
    }


def test_code_is_written_as_lines() -> None:
    assert dump({"code": "a = 1\nb = 2\n"}) == "code: |\n  a = 1\n  b = 2\n"


@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "a: &x [1]\nb: *x",
        "!!python/object/apply:os.system [ls]",
        "!!binary aGk=",
        "!!timestamp 2026-01-31",
        "!!set {a, b}",
        "1: one",
        "? [a]\n: b",
        "a: 1\n---\nb: 2",
        "[" * 300,
        "x" * (MAX_LENGTH + 1),
        "a: 1\na: 2",
    ],
)
def test_what_json_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(BoundedJSONError):
        load(text)
