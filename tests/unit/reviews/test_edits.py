"""Edits: checked against the schema, and made of what a form says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviews.edits import UNCHANGED, ReviewInvalid, below, checked_edit, edits_for
from workflows.engine.bounded_json import canonical
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


def test_arguments_are_laid_over_key_by_key() -> None:
    edit = checked_edit(hold({"n": 1, "s": "x"}), {"n": 2}, SCHEMA)
    assert edit is not None
    assert (edit.sent, edit.whole) == ({"n": 2}, {"n": 2, "s": "x"})


def test_an_output_is_replaced_as_a_whole() -> None:
    edit = checked_edit(hold({"n": 1, "s": "x"}, AFTER), {"n": 2}, SCHEMA)
    assert edit is not None
    assert edit.whole == {"n": 2}


def test_an_output_may_become_null_where_its_schema_allows() -> None:
    edit = checked_edit(hold({"n": 1}, AFTER), None, {"type": ["object", "null"]})
    assert edit is not None
    assert (edit.sent, edit.whole) == (None, None)
    assert paths(lambda: checked_edit(hold({"n": 1}, AFTER), None, SCHEMA)) == ["edits"]
    assert checked_edit(hold(None, AFTER), None, None) is None
    assert checked_edit(hold({"n": 1}, AFTER), UNCHANGED, SCHEMA) is None


@pytest.mark.parametrize("edits", [UNCHANGED, None, {}, {"n": 1}, {"n": 1.0}])
def test_what_changes_nothing_is_no_edit(edits: Any) -> None:
    assert checked_edit(hold({"n": 1}), edits, SCHEMA) is None


def test_every_fault_has_its_path() -> None:
    both = paths(lambda: checked_edit(hold({"n": 1}), {"n": "x", "t": 1}, SCHEMA))
    assert sorted(both) == ["edits.n", "edits.t"]
    assert paths(lambda: checked_edit(hold({"n": 1}), [1], SCHEMA)) == ["edits"]
    assert paths(lambda: checked_edit(hold({}), {"n": [float("nan")]}, None)) == ["edits.n[0]"]
    assert paths(lambda: checked_edit(hold({}, reason="escalation"), {}, None)) == ["edits"]


def test_what_no_edit_can_say() -> None:
    assert paths(lambda: edits_for(hold({"n": 1, "s": "x"}), {"n": 1}, {"n": 1, "s": "x"})) == [
        "edits.s"
    ]
    assert paths(lambda: edits_for(hold({"n": 1}), 5, {"n": 1})) == ["edits"]


def test_below() -> None:
    assert [below("edits", path) for path in ("", "a.b", "[0]")] == [
        "edits",
        "edits.a.b",
        "edits[0]",
    ]


words = st.text("ab/~.é", max_size=3)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abcd"), json_values)


@given(objects, objects)
def test_edits_lead_to_the_value_they_were_made_of(before: Any, more: Any) -> None:
    value = {**before, **more}
    of = hold(before)
    edits = edits_for(of, value, of.payload)
    made = before if edits is UNCHANGED else {**before, **edits}
    assert canonical(made) == canonical(value)
    edit = checked_edit(of, edits, None)
    assert (edit is None) == (canonical(before) == canonical(value))
