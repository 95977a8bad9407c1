"""Answers in the words of other products: a test for each row of the table in docs/protocol.md."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.common.decision_formats import (
    FOREIGN_FIELDS,
    OURS,
    TranslatedDecision,
    UnknownDecisionFormat,
    is_foreign,
    translate_decision,
)

CALL = {"name": "send", "args": {"to": "b"}}
INBOX = {"action": "send", "args": {"to": "b"}}

ROWS: list[tuple[dict[str, Any], TranslatedDecision]] = [
    ({"type": "approve"}, TranslatedDecision("APPROVE")),
    (
        {"type": "edit", "edited_action": CALL},
        TranslatedDecision("APPROVE", edits={"to": "b"}, tool="send"),
    ),
    ({"type": "reject", "message": "no"}, TranslatedDecision("REJECT", comment="no")),
    ({"type": "respond", "message": "42"}, TranslatedDecision("APPROVE", edits="42", instead=True)),
    (
        {"decisions": [{"type": "reject", "message": "no"}]},
        TranslatedDecision("REJECT", comment="no"),
    ),
    ({"type": "accept"}, TranslatedDecision("APPROVE")),
    (
        {"type": "edit", "args": INBOX},
        TranslatedDecision("APPROVE", edits={"to": "b"}, tool="send"),
    ),
    (
        {"type": "response", "args": "shorter"},
        TranslatedDecision("REQUEST_CHANGES", comment="shorter"),
    ),
    ({"decision": "request_changes"}, TranslatedDecision("REQUEST_CHANGES")),
    (
        {"type": "revise", "message": "shorter"},
        TranslatedDecision("REQUEST_CHANGES", comment="shorter"),
    ),
    ({"type": "ignore", "args": None}, TranslatedDecision("REJECT")),
    ({"chosen_options": ["Approve"], "params_input": {}}, TranslatedDecision("APPROVE")),
    (
        {"chosen_options": ["Approve"], "params_input": {"n": 1}},
        TranslatedDecision("APPROVE", edits={"n": 1}),
    ),
    ({"chosen_options": ["Reject"]}, TranslatedDecision("REJECT")),
    ({"action": "accept", "content": {}}, TranslatedDecision("APPROVE")),
    ({"action": "accept", "content": {"n": 1}}, TranslatedDecision("APPROVE", edits={"n": 1})),
    ({"action": "decline"}, TranslatedDecision("REJECT")),
    ({"approved": True}, TranslatedDecision("APPROVE")),
    ({"approved": False}, TranslatedDecision("REJECT")),
    ({"decision": "approve"}, TranslatedDecision("APPROVE")),
    ({"decision": "Decline", "comment": "no"}, TranslatedDecision("REJECT")),
    ({"decision": "edit", "edits": {"n": 1}}, TranslatedDecision("APPROVE")),
]


@pytest.mark.parametrize(("body", "meant"), ROWS)
def test_each_row_of_the_table_is_translated(
    body: dict[str, Any], meant: TranslatedDecision
) -> None:
    assert is_foreign(body)
    assert translate_decision(body) == meant
    assert translate_decision({**body, "execution_id": 1, "hold_id": "1-1", "version": 3}) == meant


@pytest.mark.parametrize(
    ("body", "path", "code"),
    [
        ({"action": "cancel"}, "action", "no_decision"),
        ({"type": "maybe"}, "type", "invalid_choice"),
        ({"decision": 7}, "decision", "invalid_choice"),
        ({"message": "no"}, "decision", "invalid"),
        ({"type": "approve", "approved": False}, "approved", "invalid"),
        ({"type": "edit"}, "args", "required"),
        ({"type": "edit", "edits": None}, "args", "required"),
        ({"type": "edit", "edited_action": []}, "edited_action", "invalid"),
        ({"type": "edit", "edited_action": {"name": "x"}}, "edited_action.args", "invalid"),
        ({"type": "respond"}, "message", "required"),
        ({"type": "response"}, "message", "required"),
        ({"type": "reject", "message": 1}, "message", "invalid"),
        ({"action": "accept", "content": 1}, "content", "invalid"),
        ({"decisions": []}, "decisions", "invalid"),
        ({"decisions": [{"type": "approve"}] * 2}, "decisions", "invalid"),
        ({"decisions": [{"type": "x"}]}, "decisions[0].type", "invalid_choice"),
        ({"decisions": [{}]}, "decisions[0].type", "invalid_choice"),
        ({"chosen_options": ["Approve", "Reject"]}, "chosen_options", "invalid"),
        ({"chosen_options": "Approve"}, "chosen_options", "invalid"),
        ({"approved": "yes"}, "approved", "invalid"),
    ],
)
def test_unknown_values_are_named(body: dict[str, Any], path: str, code: str) -> None:
    with pytest.raises(UnknownDecisionFormat) as refused:
        translate_decision(body)
    assert (refused.value.path, refused.value.code) == (path, code)


def test_holdpoint_bodies_are_unchanged() -> None:
    assert not is_foreign({"decision": "APPROVE", "edits": {}, "comment": "", "version": 1})
    assert not is_foreign({"decision": "REQUEST_CHANGES", "comment": "shorter", "version": 1})
    assert not is_foreign({"version": 1})


texts = st.sampled_from(["", "approve", "Edit", "respond", "cancel", "Reject", "é"])
values = st.none() | st.booleans() | st.integers() | texts
odd = values | st.lists(values, max_size=2) | st.dictionaries(st.sampled_from(["args"]), values)


@given(st.dictionaries(st.sampled_from(["decision", *sorted(FOREIGN_FIELDS)]), odd, max_size=4))
def test_any_body_is_translated_or_refused(body: dict[str, Any]) -> None:
    with suppress(UnknownDecisionFormat):
        assert translate_decision(body).decision in OURS
