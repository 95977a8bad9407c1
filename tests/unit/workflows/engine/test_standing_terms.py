"""Standing answers in the engine: what they cover, and which holds take one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.unit.workflows.engine.test_external_actions import AFTER, World
from workflows.engine.policy.standing_terms import (
    StandingTerms,
    UpTo,
    covers,
    is_number,
    parse_rule,
)
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.status import ExecutionStatus
from workflows.engine.values.bounded_json import canonical

TERMS = StandingTerms(seconds=60)
USE = {"grant": "7", "given_by": "ann", "expires_at": "2026-01-01T00:00:00+00:00"}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, "", "1"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("x"), inner, max_size=1),
    max_leaves=3,
)
RULES = st.sampled_from(["exact", "any", {"up_to": 2}]).map(parse_rule)
ARGUMENTS = st.dictionaries(st.sampled_from("abc"), VALUES)


@given(st.dictionaries(st.sampled_from("abc"), RULES), ARGUMENTS, ARGUMENTS)
def test_only_what_the_rules_name_differs(
    rules: dict[str, Any], approved: dict[str, Any], asked: dict[str, Any]
) -> None:
    if not covers(rules, approved, asked):
        return
    assert approved.keys() == asked.keys()
    for name, value in asked.items():
        rule = rules.get(name, "exact")
        if isinstance(rule, UpTo):
            assert is_number(value)
            assert 0 <= value <= rule.up_to
        elif rule == "exact":
            assert canonical(value) == canonical(approved[name])


@given(ARGUMENTS)
def test_the_approved_arguments_are_covered(arguments: dict[str, Any]) -> None:
    assert covers({}, arguments, arguments)
    assert not covers({}, arguments, {**arguments, "more": 1})
    assert not covers({"more": "any"}, arguments, {**arguments, "more": 1})


def test_a_number_too_large_for_a_float_is_compared_exactly() -> None:
    assert not covers({"n": UpTo(up_to=2**53)}, {"n": 1}, {"n": 2**53 + 1})


@pytest.mark.parametrize(
    "rule",
    [
        "some",
        {"up_to": -1},
        {"up_to": True},
        {"up_to": "1"},
        {"up_to": float("nan")},
        {"up_to": float("inf")},
        {},
        None,
        5,
    ],
)
def test_other_rules_are_refused(rule: Any) -> None:
    with pytest.raises(ValidationError):
        StandingTerms.model_validate({"seconds": 1, "arguments": {"a": rule}})
    with pytest.raises(ValueError, match="validation error"):
        parse_rule(rule)


def test_an_answer_skips_the_review_of_the_asked_arguments() -> None:
    world = World(standing=USE)
    assert world.state.status is ExecutionStatus.COMPLETED
    assert not world.state.holds_opened


def test_an_output_is_reviewed_in_spite_of_it() -> None:
    assert len(World(AFTER, output=1, standing=USE).state.holds) == 1


def test_a_quorum_and_an_output_take_none() -> None:
    for world in (World(review={"quorum": 2}), World(AFTER, output=1)):
        with pytest.raises(Refused) as caught:
            world.decide(approved=True, standing=TERMS)
        assert caught.value.code == "no_standing_answer"
    with pytest.raises(Refused):
        World().decide(approved=False, feedback="no", standing=TERMS)
