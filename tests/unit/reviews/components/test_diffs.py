"""Differences between values and between texts."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reviews.components.json_diffs import MISSING, Change, apply, diff, folded, same, text_segments
from tests.support.repetitions import often

KEYS = st.sampled_from(["a", "b", "c", "a/b", "", "0"])
SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-2, 2) | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)
LINES = st.lists(st.sampled_from(["a", "b", "c d", "c e", "", "x y z"]), max_size=12)


@settings(max_examples=often(120, 2000), deadline=None)
@given(VALUES, VALUES)
def test_applying_a_diff_gives_the_new_value(before: Any, after: Any) -> None:
    changes = diff(before, after)
    untouched = repr(before)
    assert same(apply(before, changes), after)
    assert repr(before) == untouched
    assert (changes == ()) == same(before, after)


@given(VALUES, VALUES)
def test_every_change_has_old_and_new_value(before: Any, after: Any) -> None:
    for change in diff(before, after):
        assert (change.before is MISSING) == (change.kind == "added")
        assert (change.after is MISSING) == (change.kind == "removed")
        if change.kind != "added":
            assert same(at(before, change.path), change.before)
        if change.kind != "removed":
            assert same(at(after, change.path), change.after)


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        value = value[part]
    return value


def test_changes_are_found_at_their_place() -> None:
    before = {"path": "a.md", "tags": ["x", "y", "z"], "n": 1, "old": None}
    after = {"path": "b.md", "tags": ["x", "z"], "n": True, "new": {"k": 1}}
    assert diff(before, after) == (
        Change(("path",), "changed", "a.md", "b.md"),
        Change(("tags", 1), "removed", "y", MISSING),
        Change(("n",), "changed", 1, True),
        Change(("old",), "removed", None, MISSING),
        Change(("new",), "added", MISSING, {"k": 1}),
    )
    assert diff({"a": 1}, {"a": 1.0}) == ()


def test_paths_for_people_and_for_machines() -> None:
    change = Change(("a/b", 0, "c"), "changed", 1, 2)
    assert (change.dotted, change.pointer) == ('["a/b"][0].c', "/a~1b/0/c")


@settings(max_examples=often(100, 2000), deadline=None)
@given(LINES, LINES)
def test_side_by_side_rows_hold_both_texts(before: list[str], after: list[str]) -> None:
    old, new = "\n".join(before), "\n".join(after)
    rows = text_segments(old, new)
    left = [row for row in rows if row.kind != "added"]
    right = [row for row in rows if row.kind != "removed"]
    assert "\n".join("".join(s.text for s in row.before) for row in left) == old
    assert "\n".join("".join(s.text for s in row.after) for row in right) == new
    for row in rows:
        kinds = {segment.kind for segment in (*row.before, *row.after)}
        assert row.kind != "same" or (kinds == {"same"} and row.before == row.after)
        same_words = [
            "".join(s.text for s in side if s.kind == "same") for side in (row.before, row.after)
        ]
        assert same_words[0] == same_words[1]


@given(LINES, LINES)
def test_the_edit_script_is_the_shortest(before: list[str], after: list[str]) -> None:
    rows = text_segments("\n".join(before), "\n".join(after))
    kept = sum(row.kind == "same" for row in rows)
    assert kept == longest_common(
        tuple("\n".join(before).split("\n")), tuple("\n".join(after).split("\n"))
    )


def longest_common(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    row = [0] * (len(right) + 1)
    for a in left:
        last = row[:]
        for n, b in enumerate(right, 1):
            row[n] = last[n - 1] + 1 if a == b else max(last[n], row[n - 1])
    return row[-1]


def test_words_that_differ_are_marked() -> None:
    (row,) = text_segments("the old title, here", "the new title, here")
    assert [(s.kind, s.text) for s in row.before] == [
        ("same", "the "),
        ("removed", "old"),
        ("same", " title, here"),
    ]
    assert [(s.kind, s.text) for s in row.after] == [
        ("same", "the "),
        ("added", "new"),
        ("same", " title, here"),
    ]


def test_long_equal_runs_are_folded() -> None:
    lines = [f"line {n}" for n in range(100)]
    changed = [*lines[:50], "new", *lines[51:]]
    rows = folded(text_segments("\n".join(lines), "\n".join(changed)))
    assert [(row.kind, row.folded) for row in rows if row.kind != "same"] == [
        ("fold", 47),
        ("changed", 0),
        ("fold", 46),
    ]
    change = Change((), "changed", "\n".join(lines), "\n".join(changed))
    assert change.is_long_text
    assert change.rows == rows
    assert Change((), "changed", 1, "x").rows == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\n" * 100_000, "b\n" * 100_000),
        ("a\nb\n" * 50_000, "b\nc\n" * 50_000),
        ("x " * 100_000, "y " * 100_000),
        ("\n".join(f"{n} a" for n in range(30_000)), "\n".join(f"{n} b" for n in range(30_000))),
    ],
    ids=range(4),
)
def test_diffs_of_unrelated_texts_are_fast(before: str, after: str) -> None:
    started = time.process_time()
    assert text_segments(before, after)
    assert time.process_time() - started < 3
