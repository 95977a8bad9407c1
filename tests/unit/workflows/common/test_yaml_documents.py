"""JSON as YAML: nothing is lost, and nothing but JSON comes in."""

from __future__ import annotations

import json
from time import thread_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.common.yaml_documents import dump, load
from workflows.engine.values.bounded_json import DEFAULT, BoundedJSONError

#: Strings that some version of YAML reads as something else.
TRICKY = (
    "no", "No", "on", "y", "yes", "true", "True", "null", "~", "", " ", "1e3", "1.0", "0x1f",
    "010", "1_000", "0o7", "0b1", "+1", "1.", ".5", "1e400", "NaN",
    "12:30:45", "2026-01-31", "2026-01-31T10:00:00Z", ".inf", ".nan", "-", "- a",
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
    ("text", "error"),
    [
        ("a: [", "is not valid YAML ("),
        ("a: 1\nb: c: d", "line 2, column 5"),
        ("%YAML 1.1\n---\na: no", "is YAML 1.1"),
        ("a: 1\n\tb: 2", "line 2, column 1"),
        (
            "a: &x [1]\nb: *x",
            "b: refers to *x; aliases are not supported, repeat the value (line 2)",
        ),
        (
            "a:\n- !!python/object/apply:os.system [ls]",
            "a[0]: has the tag tag:yaml.org,2002:python",
        ),
        ("!!binary aGk=", "tags are not supported (line 1)"),
        ("a: ! x", "tags are not supported (line 1)"),
        ("!!set {a, b}", "tags are not supported (line 1)"),
        ("!!int '0x10'", "tags are not supported (line 1)"),
        ("1: one", "has a key that is not text (1); put it in quotes (line 1)"),
        ("a:\n  true: one", "a: has a key that is not text (true); put it in quotes (line 2)"),
        ("? \n: one", "has a key that is not text (empty); put it in quotes (line 1)"),
        ("? [a]\n: b", "has a key that is not text (a list or object)"),
        ("a: 1\n---\nb: 2", "has a second document (line 2)"),
        ("a: 1\na: 2", "has the key 'a' twice (line 2)"),
        ("a:\n- b: 1\n  'b': 2", "a[0]: has the key 'b' twice (line 3)"),
        ("a: 1_000", "a: has the number 1_000, which versions of YAML read differently"),
        ("a: [0o7]", "a[0]: has the number 0o7"),
        ("a: 010", "a: has the number 010"),
        ("a: 0x1F", "a: has the number 0x1F"),
        ("a: +1", "a: has the number +1"),
        ("a: .5", "a: has the number .5"),
        ("a: .inf", "a: has the number .inf"),
        ("a: .NaN", "a: has the number .NaN"),
        ("a: 1e400", "a: is not a finite number"),
        (f"a: {'9' * 5_000}", "a: is a whole number of more than 1000 digits"),
        ("a: b\0", "has the character U+0000, which YAML does not allow (line 1)"),
        ("a: 1\nb: \ud800", "has the character U+D800, which YAML does not allow (line 2)"),
        ('a: "\\uD800"', ""),
        ('a: "\\0"', "a: has a NUL character in its text"),
        ("[" * 200_000, "is nested more than 64 levels deep (line 1)"),
        ("- " * 200_000, "is nested more than 64 levels deep (line 1)"),
        ("? " * 200_000, "has a key that is not text"),
        ("[" + "[]," * 200_000, "has more than 10000 values"),
        ("- a\n" * 200_000, "has more than 10000 values"),
        ("x" * (DEFAULT.max_bytes + 1), "is longer than 1048576 characters"),
        (f"a: {'x' * (DEFAULT.string_length + 1)}", "a: is longer than 262144 characters"),
        (f"{'k' * 300}: 1", "has a key longer than 256 characters"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_place(text: str, error: str) -> None:
    started = thread_time()
    with pytest.raises(BoundedJSONError) as refused:
        load(text)
    assert error in str(refused.value)
    assert thread_time() - started < 5


def test_a_bomb_of_aliases_stays_small() -> None:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    with pytest.raises(BoundedJSONError, match=r"a1\[0\]: refers to \*a0"):
        load("\n".join(lines))


def test_a_byte_order_mark_is_no_part_of_the_document() -> None:
    assert load("\ufeffa: 1") == {"a": 1}
    assert load("") is None
