"""Edits: checked against the schema, and built from a form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviews.decisions.edits import NO_CHANGE, Change, ReviewInvalid, below, change_to, checked_edit
from workflows.engine.values.bounded_json import canonical
from workflows.models import Hold

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "s": {"type": "string"}},
    "required": ["n"],
    "additionalProperties": False,
}
BEFORE, AFTER = "BEFORE_EXECUTION", "AFTER_EXECUTION"


def hold(payload: Any, phase: str = BEFORE, reason: str = "node_review") -> Hold:
    return Hold(id="1-1", payload=payload, phase=phase, reason=reason)


def paths(call: Any) -> list[str]:
    with pytest.raises(ReviewInvalid) as caught:
        call()
    assert [each.path for each in caught.value.problems] == [
        each.path for each in caught.value.errors
    ]
    return [each.path for each in caught.value.errors]


def test_arguments_are_merged_key_by_key() -> None:
    edit = checked_edit(hold({"n": 1, "s": "x"}), Change({"n": 2}), SCHEMA)
    assert edit is not None
    assert (edit.sent, edit.whole) == (Change({"n": 2}), {"n": 2, "s": "x"})


def test_an_output_is_replaced_as_a_whole() -> None:
    edit = checked_edit(hold({"n": 1, "s": "x"}, AFTER), Change({"n": 2}), SCHEMA)
    assert edit is not None
    assert edit.whole == {"n": 2}


SET_NULL = Change(set_output_null=True)


def test_an_output_may_become_null_where_its_schema_allows() -> None:
    edit = checked_edit(hold({"n": 1}, AFTER), SET_NULL, {"type": ["object", "null"]})
    assert edit is not None
    assert (edit.sent, edit.whole) == (SET_NULL, None)
    assert checked_edit(hold(None, AFTER), SET_NULL, None) is None


@pytest.mark.parametrize(
    ("of", "change", "schema"),
    [
        (hold({"n": 1}, AFTER), SET_NULL, SCHEMA),
        (hold({"n": 1}), SET_NULL, None),
        (hold({}, AFTER, reason="escalation"), SET_NULL, None),
        (hold({"n": 1}, AFTER), Change({"n": 2}, set_output_null=True), None),
    ],
)
def test_only_allowed_holds_set_null(of: Hold, change: Change, schema: Any) -> None:
    assert paths(lambda: checked_edit(of, change, schema)) == ["set_output_null"]


@pytest.mark.parametrize(
    "change", [NO_CHANGE, Change(), Change(None), Change({}), Change({"n": 1})]
)
def test_an_edit_without_a_change_is_no_edit(change: Change) -> None:
    assert checked_edit(hold({"n": 1}), change, SCHEMA) is None


@pytest.mark.parametrize("schema", [None, SCHEMA])
def test_null_edits_keep_an_output(schema: Any) -> None:
    assert checked_edit(hold({"n": 1}, AFTER), Change(None), schema) is None


def test_every_fault_has_its_path() -> None:
    both = paths(lambda: checked_edit(hold({"n": 1}), Change({"n": "x", "t": 1}), SCHEMA))
    assert sorted(both) == ["edits.n", "edits.t"]
    assert paths(lambda: checked_edit(hold({"n": 1}), Change([1]), SCHEMA)) == ["edits"]
    assert paths(lambda: checked_edit(hold({}), Change({"n": [float("nan")]}), None)) == [
        "edits.n[0]"
    ]
    assert paths(lambda: checked_edit(hold({}, reason="escalation"), Change({}), None)) == ["edits"]


def test_invalid_edits_are_refused() -> None:
    assert paths(lambda: change_to(hold({"n": 1, "s": "x"}), {"n": 1}, {"n": 1, "s": "x"})) == [
        "edits.s"
    ]
    assert paths(lambda: change_to(hold({"n": 1}), 5, {"n": 1})) == ["edits"]


def test_the_value_at_a_path() -> None:
    assert [below("edits", path) for path in ("", "a.b", "[0]")] == [
        "edits",
        "edits.a.b",
        "edits[0]",
    ]


words = st.text("ab/~.é", max_size=3)
json_limits = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abcd"), json_limits)


@given(objects, objects)
def test_edits_rebuild_their_source_value(before: Any, more: Any) -> None:
    value = {**before, **more}
    of = hold(before)
    change = change_to(of, value, of.payload)
    made = before if change.is_empty else {**before, **change.edits}
    assert canonical(made) == canonical(value)
    edit = checked_edit(of, change, None)
    assert (edit is None) == (canonical(before) == canonical(value))


@given(json_limits, json_limits)
def test_a_new_output_is_the_whole_of_it_null_included(before: Any, value: Any) -> None:
    of = hold(before, AFTER)
    edit = checked_edit(of, change_to(of, value, of.payload), None)
    assert (edit is None) == (canonical(before) == canonical(value))
    assert edit is None or canonical(edit.whole) == canonical(value)
