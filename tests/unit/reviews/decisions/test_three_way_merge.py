"""Three-way merges: identities and conflicts."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reviews.components.json_diffs import MISSING, diff, same
from reviews.decisions.three_way_merge import merge

KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.text("xy", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(VALUES, VALUES)
def test_one_sided_and_equal_edits_merge_without_conflict(base: Any, edit: Any) -> None:
    for theirs, mine in ((base, edit), (edit, base), (edit, edit)):
        result = merge(base, theirs, mine)
        assert same(result.merged, edit)
        assert result.conflicts == ()
    assert merge(base, base, base).rows == ()


@given(VALUES, VALUES, VALUES)
def test_both_orders_find_the_same_conflicts(base: Any, theirs: Any, mine: Any) -> None:
    one, other = merge(base, theirs, mine), merge(base, mine, theirs)
    assert {row.path for row in one.conflicts} == {row.path for row in other.conflicts}
    if not one.conflicts:
        assert same(one.merged, other.merged)
    for row in one.conflicts:
        assert row.merged is row.mine
        assert not same(row.base, row.mine)
        assert not same(row.base, row.theirs)


@given(VALUES, VALUES, VALUES)
def test_my_edits_are_never_lost(base: Any, theirs: Any, mine: Any) -> None:
    result = merge(base, theirs, mine)
    assert {row.outcome for row in result.rows} <= {"theirs", "mine", "both", "conflict"}
    taken = {row.path for row in result.rows if row.outcome == "theirs"}
    for change in diff(mine, result.merged):
        assert any(change.path[: len(path)] == path for path in taken)


def test_edits_of_different_places_are_both_kept() -> None:
    base = {"path": "a", "text": "t", "list": [1, 2], "gone": 1}
    theirs = {"path": "b", "text": "t", "list": [1, 3], "gone": 1, "new": 2}
    mine = {"path": "a", "text": "u", "list": [0, 2]}
    result = merge(base, theirs, mine)
    assert result.merged == {"path": "b", "text": "u", "list": [0, 3], "new": 2}
    assert [(row.dotted, row.outcome) for row in result.rows] == [
        ("path", "theirs"),
        ("text", "mine"),
        ("list[0]", "mine"),
        ("list[1]", "theirs"),
        ("gone", "mine"),
        ("new", "theirs"),
    ]


def test_a_conflict_keeps_mine_and_shows_all_three() -> None:
    result = merge({"a": 1, "l": [1]}, {"a": 2, "l": [1, 2]}, {"l": [0]})
    assert result.merged == {"l": [0]}
    assert [(row.dotted, row.base, row.theirs, row.mine) for row in result.conflicts] == [
        ("a", 1, 2, MISSING),
        ("l", [1], [1, 2], [0]),
    ]
