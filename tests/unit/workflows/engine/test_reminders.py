"""Reminders and escalation chains: validation, and the schedule stored in a hold."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from tests.stateful.scripted import ScriptedRunner
from tests.support.actors import actor_named
from tests.support.memory_journal import MemoryJournal
from workflows.engine.plans.validation import PlanInvalid, parse_plan
from workflows.engine.policy.policies import Policy, ReviewPolicy
from workflows.engine.protocol.commands import ApprovalResponse, EscalateHold
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.events import HoldEscalated, HoldOpened
from workflows.engine.protocol.loop import step, submit
from workflows.engine.protocol.ports import Ports
from workflows.engine.protocol.state import dump_state, load_state

STEPS = [
    {"after_seconds": 60, "groups": ["legal"]},
    {"after_seconds": 120, "groups": ["board"], "tell": ["ann"]},
]


def plan(**review: Any) -> dict[str, Any]:
    task = {"id": "a", "type": "tool", "tool": "unit.value", "arguments": {}}
    return {"tasks": [{**task, "human_review": review}]}


@pytest.mark.parametrize(
    ("review", "path", "words"),
    [
        ({"reminders": [{}]}, "reminders[0]", "exactly one"),
        ({"reminders": [{"at": 0.5, "after_seconds": 1}]}, "reminders[0]", "exactly one"),
        ({"reminders": [{"at": 1}]}, "reminders[0].at", "less than 1"),
        ({"reminders": [{"at": 0.5}]}, "reminders[0].at", "needs a deadline"),
        ({"reminders": [{"before_seconds": 5}]}, "reminders[0].before_seconds", "deadline"),
        (
            {"timeout_seconds": 60, "reminders": [{"at": 0.5}, {"before_seconds": 60}]},
            "reminders[1].before_seconds",
            "less than timeout_seconds",
        ),
        (
            {"timeout_seconds": 60, "reminders": [{"after_seconds": 60}]},
            "reminders[0].after_seconds",
            "less than timeout_seconds",
        ),
        (
            {"timeout_seconds": 60, "on_timeout": "keep_waiting", "reminders": [{"at": 0.5}]},
            "reminders[0].at",
            "needs a deadline",
        ),
        ({"reminders": [{"after_seconds": n} for n in range(1, 12)]}, "reminders", "at most 10"),
        ({"escalation": [{"after_seconds": 5}]}, "escalation[0]", "name groups"),
        ({"escalation": [{"after_seconds": 5, "groups": [""]}]}, "escalation[0].groups[0]", "1"),
        ({"escalation": [{"groups": ["x"]}]}, "escalation[0].after_seconds", "required"),
        ({"escalation": [STEPS[1], STEPS[0]]}, "escalation[1].after_seconds", "previous step"),
        (
            {"timeout_seconds": 100, "escalation": STEPS},
            "escalation[1].after_seconds",
            "less than timeout_seconds",
        ),
    ],
)
def test_impossible_steps_are_refused_with_their_path(
    review: dict[str, Any], path: str, words: str
) -> None:
    with pytest.raises(PlanInvalid) as refused:
        parse_plan(plan(**review))
    problem = refused.value.problems[0]
    assert problem.path == f"tasks[0].human_review.{path}"
    assert words in problem.message.lower()
    assert not problem.message.startswith("Value error")


@pytest.mark.parametrize(
    "policy",
    [
        {"hil": {"timeout_seconds": 60, "escalation": STEPS}},
        {"replan_review": {"enabled": True, "reminders": [{"at": 0.5}]}},
        {"escalation": [STEPS[1], STEPS[0]]},
    ],
)
def test_the_policy_is_checked_too(policy: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Policy.model_validate(policy)


def opened(review: dict[str, Any] | None = None, **policy: Any) -> tuple[Ports, str, HoldOpened]:
    journal = MemoryJournal()
    ports = Ports(journal, ScriptedRunner(), None, None, summarise=lambda run: "")  # type: ignore[arg-type]
    written = parse_plan(plan(**(review or {})))
    run = journal.create(written, policy=Policy.model_validate(policy))
    while step(run, ports):
        pass
    (event,) = [each for each in journal.executions[run].events if isinstance(each, HoldOpened)]
    return ports, run, event


def test_times_are_relative_to_the_opening_and_ordered() -> None:
    reminders = [{"before_seconds": 10}, {"at": 0.5}, {"after_seconds": 20}, {"at": 0.2}]
    _, _, event = opened({"timeout_seconds": 100, "reminders": reminders, "escalation": STEPS[:1]})
    assert event.opening["reminders"] == [20.0, 50.0, 90.0]
    assert event.opening["escalation"] == [{"after_seconds": 60.0, "groups": ["legal"], "tell": []}]


def test_a_hold_inherits_the_policys_reminders() -> None:
    common = {"reminders": [{"at": 0.5}, {"after_seconds": 30}], "escalation": STEPS}
    bounded, endless = {"timeout_seconds": 100}, {"on_timeout": "keep_waiting"}
    opening = opened(bounded, **common)[2].opening
    assert (opening["reminders"], len(opening["escalation"])) == ([30.0, 50.0], 1)
    opening = opened(endless, **common)[2].opening
    assert (opening["reminders"], len(opening["escalation"])) == ([30.0], 2)
    opening = opened({"reminders": [], "escalation": []}, **common)[2].opening
    assert "reminders" not in opening
    assert "escalation" not in opening


def test_policies_and_states_of_older_releases_are_read() -> None:
    assert Policy.model_validate({"hil": {"enabled": True}}).reminders == ()
    assert ReviewPolicy.model_validate({"timeout_seconds": 5}).seconds_to_deadline == 5
    hold = {"id": "1-1", "reason": "node_review"}
    assert load_state({"holds": [hold]}).holds[0].escalated == 0


def test_each_step_is_taken_once_and_in_turn() -> None:
    ports, run, event = opened({"on_timeout": "keep_waiting", "escalation": STEPS})

    def take(number: int) -> Any:
        command = EscalateHold(hold=event.hold_id, step=number, groups=("legal",))
        return submit(run, command, ports, actor=actor_named("system"), source="test")

    with pytest.raises(Refused, match="not the next"):
        take(1)
    after = take(0).state
    assert load_state(json.loads(dump_state(after))).holds[0].escalated == 1
    with pytest.raises(Refused, match="not the next"):
        take(0)
    take(1)
    approve = ApprovalResponse(hold=event.hold_id, approved=True)
    submit(run, approve, ports, actor=actor_named("ann"), source="test")
    with pytest.raises(Refused, match="not open"):
        take(2)
    events = ports.journal.executions[run].events  # type: ignore[attr-defined]
    assert [each.step for each in events if isinstance(each, HoldEscalated)] == [0, 1]
