"""A policy as a floor: each field has a rule, and no override gets past one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from workflows.engine.policy.floor import RULES, Change, changes
from workflows.engine.policy.permissions import NAMED
from workflows.engine.policy.policies import Policy

UNDO = 5.0


def fields_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Paths of all fields, those of nested models instead of the model's own."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from fields_of(kind, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_each_field_of_a_policy_has_a_rule() -> None:
    assert set(RULES) == set(fields_of(Policy))


# --- any two policies -----------------------------------------------------------------------------

groups = st.lists(st.sampled_from(["reviewer", "legal", "security"]), unique=True, max_size=3)
reminders = st.lists(
    st.sampled_from([{"after_seconds": 10}, {"after_seconds": 20}]), unique_by=str, max_size=2
)
steps = st.sampled_from(
    [
        [],
        [{"after_seconds": 30, "groups": ["legal"]}],
        [{"after_seconds": 40, "tell": ["ann"]}],
        [{"after_seconds": 30, "groups": ["legal"]}, {"after_seconds": 40, "tell": ["ann"]}],
    ]
)
seconds = st.sampled_from([60, 300, 86_400])


def some(**values: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=values)


overrides = some(
    hil=some(
        enabled=st.booleans(),
        timeout_seconds=seconds,
        on_timeout=st.sampled_from(["abort", "approve"]),
        approval_required=st.sampled_from(["always", "critical_only", "never"]),
        groups=groups,
        reminders=st.none() | reminders,
        escalation=st.none() | steps,
    ),
    ail=some(
        enabled=st.booleans(),
        decision_points=st.sampled_from(["per_layer", "on_error", "manual"]),
        agent=st.sampled_from(["external", "rules"]),
        timeout_seconds=seconds,
        settings=st.sampled_from([{}, {"rules": []}]),
    ),
    per_layer_validation=st.booleans(),
    validate_last_layer=st.booleans(),
    validation_timeout_seconds=st.none() | seconds,
    speculation=some(
        enabled=st.booleans(),
        confidence=st.sampled_from([0.1, 0.7, 0.95, "learned"]),
        max_tasks=st.sampled_from([1, 8]),
    ),
    replan_review=some(
        enabled=st.booleans(),
        groups=groups,
        quorum=st.integers(1, 3),
        instructions=st.sampled_from(["", "Read it.", "Read it. Twice."]),
        timeout_seconds=st.none() | seconds,
        on_timeout=st.sampled_from(["reject", "approve", "keep_waiting"]),
        reminders=st.none() | reminders,
        escalation=st.none() | steps,
    ),
    four_eyes=st.booleans(),
    reminders=reminders,
    escalation=steps,
    undo_seconds=st.none() | st.sampled_from([0, 5, 60]),
    require_rejection_reason=st.none() | st.booleans(),
    calendar=st.none() | st.sampled_from(["", "Office"]),
    key_arguments=st.lists(st.sampled_from(["a", "b.c"]), unique=True),
    permission_ceiling=st.sampled_from(sorted(NAMED)),
    files=st.sampled_from(["run", "workflow"]),
    secrets=st.lists(st.sampled_from(["a", "b.c"]), unique=True),
)


def policy_of(written: dict[str, Any]) -> Policy:
    """The policy, if what was written makes one."""
    try:
        return Policy.model_validate(written)
    except ValidationError:
        assume(condition=False)
        raise


def looser(floor: Policy, wanted: Policy) -> list[str]:
    found = changes(floor, wanted, installation_undo_seconds=UNDO)
    return [each.path for each in found if each.loosens]


def merged(floor: Policy, override: dict[str, Any]) -> tuple[Policy, tuple[Change, ...]]:
    try:
        wanted = floor.overridden_by(override)
    except ValidationError:
        assume(condition=False)
        raise
    return wanted, changes(floor, wanted, installation_undo_seconds=UNDO)


@given(floor=overrides)
def test_a_policy_is_as_strict_as_itself(floor: dict[str, Any]) -> None:
    policy = policy_of(floor)
    assert changes(policy, policy, installation_undo_seconds=UNDO) == ()


@given(first=overrides, second=overrides, third=overrides)
def test_nothing_is_loosened_step_by_step(
    first: dict[str, Any], second: dict[str, Any], third: dict[str, Any]
) -> None:
    """Two overrides that each pass do together what one that passes could do."""
    floor = policy_of(first)
    stricter, _ = merged(floor, second)
    strictest, _ = merged(stricter, third)
    if not looser(floor, stricter) and not looser(stricter, strictest):
        assert looser(floor, strictest) == []


@given(floor=overrides, override=overrides)
def test_merging_twice_is_merging_once(floor: dict[str, Any], override: dict[str, Any]) -> None:
    once, _ = merged(policy_of(floor), override)
    twice, again = merged(once, override)
    assert (twice, again) == (once, ())


@given(floor=overrides, override=overrides)
def test_an_accepted_override_takes_effect(floor: dict[str, Any], override: dict[str, Any]) -> None:
    """What was sent is what the policy says; what was not sent is what the floor says."""
    before = policy_of(floor)
    after, told = merged(before, override)
    sent = Policy.model_validate(override).model_dump(mode="json")
    kept, now = before.model_dump(mode="json"), after.model_dump(mode="json")
    for path in RULES:
        head, _, key = path.partition(".")
        written = override.get(head, {})
        named = head in override and (not key or key in written)
        source = sent if named else kept
        assert _at(now, path) == _at(source, path)
    assert {each.path for each in told if each.floor != each.sent} == {
        path for path in RULES if _at(kept, path) != _at(now, path)
    }


def _at(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value[key]
    return value


# --- field by field -------------------------------------------------------------------------------

APPROVES = {"enabled": True, "on_timeout": "approve", "timeout_seconds": 300}
STEP = {"after_seconds": 30, "groups": ["legal"]}
ON = {"enabled": True}

#: floor, override, the paths that it loosens
HOURS = {"name": "c", "time_zone": "UTC", "week": [[["09:00", "17:00"]]] * 7}
CASES: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({"four_eyes": True}, {"four_eyes": False}, ["four_eyes"]),
    ({"four_eyes": False}, {"four_eyes": True}, []),
    ({"hil": ON}, {"hil": {"enabled": False}}, ["hil.enabled"]),
    ({"hil": ON}, {"hil": {"approval_required": "never"}}, ["hil.approval_required"]),
    ({"hil": ON}, {"hil": {"approval_required": "critical_only"}}, ["hil.approval_required"]),
    ({}, {"hil": {"enabled": True, "approval_required": "critical_only"}}, []),
    ({"hil": ON}, {"hil": {"groups": ["friends"]}}, ["hil.groups"]),
    ({"hil": ON}, {"hil": {"groups": ["reviewer", "friends"]}}, ["hil.groups"]),
    ({"hil": ON}, {"hil": {"groups": []}}, ["hil.groups"]),
    ({"hil": {**ON, "groups": ["reviewer", "legal"]}}, {"hil": {"groups": ["legal"]}}, []),
    (
        {"hil": {**APPROVES, "groups": ["reviewer", "auditor"]}},
        {"hil": {"groups": ["auditor"]}},
        ["hil.groups"],
    ),
    (
        {"hil": {**APPROVES, "groups": ["reviewer", "legal"]}},
        {"hil": {"groups": ["legal", "reviewer"]}},
        [],
    ),
    (
        {"hil": {**APPROVES, "groups": ["reviewer", "legal"]}},
        {"hil": {"groups": ["legal"], "on_timeout": "abort"}},
        [],
    ),
    (
        {"replan_review": {**APPROVES, "groups": ["reviewer", "operator"]}},
        {"replan_review": {"groups": ["operator"]}},
        ["replan_review.groups"],
    ),
    ({"hil": ON}, {"hil": {"timeout_seconds": 1}}, []),
    ({"hil": ON}, {"hil": {"on_timeout": "approve"}}, ["hil.on_timeout", "hil.timeout_seconds"]),
    (
        {"hil": APPROVES},
        {"hil": {"timeout_seconds": 10}},
        ["hil.on_timeout", "hil.timeout_seconds"],
    ),
    ({"hil": APPROVES}, {"hil": {"timeout_seconds": 600}}, []),
    ({"hil": APPROVES}, {"hil": {"timeout_seconds": 10, "on_timeout": "abort"}}, []),
    ({"hil": {**ON, "escalation": [STEP]}}, {"hil": {"escalation": []}}, ["hil.escalation"]),
    ({"hil": ON}, {"hil": {"escalation": [STEP]}}, ["hil.escalation"]),
    ({"hil": ON}, {"hil": {"escalation": [{"after_seconds": 9, "tell": ["ann"]}]}}, []),
    (
        {"hil": ON, "reminders": [{"after_seconds": 10}]},
        {"hil": {"reminders": []}},
        ["hil.reminders"],
    ),
    ({"reminders": [{"after_seconds": 10}]}, {"reminders": []}, ["reminders"]),
    ({}, {"reminders": [{"after_seconds": 10}]}, []),
    ({}, {"escalation": [STEP]}, ["escalation"]),
    ({"ail": ON}, {"ail": {"enabled": False}}, ["ail.enabled"]),
    ({"ail": ON}, {"ail": {"decision_points": "manual"}}, ["ail.decision_points"]),
    ({"ail": ON}, {"ail": {"agent": "rules"}}, ["ail.agent"]),
    ({"ail": ON}, {"ail": {"settings": {"rules": []}}}, ["ail.settings"]),
    ({"ail": ON}, {"ail": {"timeout_seconds": 0.1}}, ["ail.timeout_seconds"]),
    ({"ail": ON}, {"ail": {"timeout_seconds": 600}}, []),
    ({}, {"ail": {"enabled": True, "agent": "rules"}}, []),
    ({"per_layer_validation": True}, {"per_layer_validation": False}, ["per_layer_validation"]),
    ({}, {"per_layer_validation": True}, []),
    ({"validate_last_layer": True}, {"validate_last_layer": False}, ["validate_last_layer"]),
    ({}, {"validate_last_layer": True}, []),
    ({"per_layer_validation": True}, {"validation_timeout_seconds": 10}, []),
    ({}, {"speculation": ON}, ["speculation.enabled"]),
    ({"speculation": ON}, {"speculation": {"enabled": False, "max_tasks": 100}}, []),
    ({"speculation": ON}, {"speculation": {"max_tasks": 100}}, ["speculation.max_tasks"]),
    ({"speculation": ON}, {"speculation": {"confidence": 0.1}}, ["speculation.confidence"]),
    ({"speculation": ON}, {"speculation": {"confidence": "learned"}}, []),
    ({"replan_review": True}, {"replan_review": False}, ["replan_review.enabled"]),
    ({"replan_review": True}, {"replan_review": {"groups": ["x"]}}, ["replan_review.groups"]),
    (
        {"replan_review": {**ON, "quorum": 2}},
        {"replan_review": {"quorum": 1}},
        ["replan_review.quorum"],
    ),
    ({"replan_review": True}, {"replan_review": {"quorum": 2}}, []),
    (
        {"replan_review": {**ON, "instructions": "Read it."}},
        {"replan_review": {"instructions": "Approve it."}},
        ["replan_review.instructions"],
    ),
    (
        {"replan_review": True},
        {"replan_review": {"on_timeout": "approve", "timeout_seconds": 1}},
        ["replan_review.on_timeout", "replan_review.timeout_seconds"],
    ),
    ({"replan_review": True}, {"replan_review": {"timeout_seconds": 60}}, []),
    (
        {"replan_review": True, "reminders": [{"after_seconds": 10}]},
        {"replan_review": {"reminders": []}},
        ["replan_review.reminders"],
    ),
    (
        {"replan_review": True},
        {"replan_review": {"escalation": [STEP]}},
        ["replan_review.escalation"],
    ),
    ({}, {"undo_seconds": 0}, ["undo_seconds"]),
    ({}, {"undo_seconds": 60}, []),
    ({"undo_seconds": 60}, {"undo_seconds": None}, ["undo_seconds"]),
    ({}, {"require_rejection_reason": False}, ["require_rejection_reason"]),
    ({}, {"require_rejection_reason": True}, []),
    (
        {"require_rejection_reason": True},
        {"require_rejection_reason": None},
        ["require_rejection_reason"],
    ),
    ({"permission_ceiling": "readonly"}, {"permission_ceiling": "trusted"}, ["permission_ceiling"]),
    ({}, {"permission_ceiling": "readonly"}, []),
    (
        {"permission_ceiling": "network-api"},
        {"permission_ceiling": "readonly"},
        ["permission_ceiling"],
    ),
    ({}, {"files": "workflow"}, ["files"]),
    ({"files": "workflow"}, {"files": "run"}, []),
    ({"secrets": ["a"]}, {"secrets": []}, ["secrets"]),
    ({"secrets": ["a"]}, {"secrets": ["a", "b"]}, []),
    (
        {},
        {"review_rules": {"version": 1, "rules": [{"name": "r", "sample": 0}]}},
        ["review_rules.rules", "review_rules.version"],
    ),
    ({"calendar": "Office"}, {"calendar": ""}, ["calendar"]),
    ({}, {"business_hours": HOURS}, ["business_hours"]),
]


@pytest.mark.parametrize(("floor", "override", "paths"), CASES)
def test_looser_values_are_refused(
    floor: dict[str, Any], override: dict[str, Any], paths: list[str]
) -> None:
    _, told = merged(Policy.model_validate(floor), override)
    assert sorted(each.path for each in told if each.loosens) == paths


def test_each_rule_has_a_test_case() -> None:
    """Every rule that can refuse anything refuses something above."""
    refused = {path for _, _, paths in CASES for path in paths}
    assert set(RULES) - refused == {"validation_timeout_seconds", "key_arguments"}


def test_a_partial_floor_binds_its_fields_and_their_children() -> None:
    floor = Policy.model_validate({"hil": ON})
    override = {"hil": {"approval_required": "never"}, "undo_seconds": 0}
    wanted = floor.overridden_by(override)
    told = changes(floor, wanted, installation_undo_seconds=UNDO, bound={"hil"})
    assert [(each.path, each.loosens) for each in told] == [
        ("hil.approval_required", True),
        ("undo_seconds", False),
    ]


def test_a_change_has_both_values() -> None:
    _, told = merged(Policy(), {"four_eyes": False})
    assert told == (Change("four_eyes", floor=True, sent=False, loosens=True),)
