"""Candidates for speculation equal the calls after an unchanged approval."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.stateful.plans import plans, policies
from tests.stateful.scripted import ScriptedRunner
from tests.support.memory_journal import MemoryJournal
from tests.support.repetitions import often
from tests.unit.workflows.engine.test_plan_review import AGENT, REVIEW, Asks, Ideas
from tests.unit.workflows.engine.test_properties import World
from workflows.engine.plans.dag import Plan
from workflows.engine.plans.validation import parse_plan
from workflows.engine.policy.permissions import NAMED, PermissionSet
from workflows.engine.policy.policies import Policy
from workflows.engine.protocol.commands import Continue
from workflows.engine.protocol.loop import step
from workflows.engine.protocol.ports import FinishedTask, NewPlan, Ports, TaskCall
from workflows.engine.protocol.speculation_candidates import (
    blocking_hold,
    candidates,
    may_speculate,
    result_digest,
)
from workflows.engine.protocol.state import Hold
from workflows.engine.protocol.status import TaskStatus

AHEAD = {"speculation": {"enabled": True}}
READER, WRITER = "readonly", "filesystem"


def marked(plan: dict[str, Any], writers: Collection[str] = ()) -> dict[str, Any]:
    """The plan with the permission sets that the catalogue would give its tasks."""
    tasks = [
        {**task, "permission_set": WRITER if task["id"] in writers else READER}
        for task in plan["tasks"]
    ]
    return {"tasks": tasks}


def foreseen(world: World) -> dict[str, dict[str, Any]]:
    """Inputs by task id, of all that can be worked out at this hold."""
    known: dict[str, FinishedTask] = {}
    found: dict[str, dict[str, Any]] = {}
    with world.journal.open(world.id, expected_version=None) as run:
        assert may_speculate(run)
        while new := [each for each in candidates(run, known) if each.task.id not in found]:
            for each in new:
                found[each.task.id] = each.inputs
                if each.task.tool == "statekit.value":
                    output = each.inputs.get("value")
                    known[each.task.id] = FinishedTask(TaskStatus.SUCCEEDED, output)
    return found


def approve_everything(world: World) -> list[TaskCall]:
    """The calls of the rest of the run, every hold approved as it is."""
    before = len(world.runner.calls)
    for _ in range(200):
        if world.status.is_final:
            break
        for hold in world.stored.state.holds:
            answer(world, hold)
        world.work()
        world.wait()
    assert world.status.is_final
    return world.runner.calls[before:]


def answer(world: World, hold: Hold) -> None:
    if hold.decider == "agent":
        world.submit(Continue())
    else:
        for actor in ("ann", "bob")[: hold.quorum - len(hold.approvals)]:
            world.decide(hold, approved=True, actor=actor)


@settings(max_examples=often(40, 5000))
@given(plan=plans(kinds=("value",), max_size=6), policy=policies())
def test_every_reader_is_a_candidate_with_its_final_inputs(
    plan: dict[str, Any], policy: dict[str, Any]
) -> None:
    world = World(marked(plan), {**policy, **AHEAD}, ScriptedRunner())
    world.work()
    assume(world.stored.state.holds)
    found = foreseen(world)
    called = {call.task.id: call.inputs for call in approve_everything(world)}
    assert found == called


@settings(max_examples=often(40, 5000))
@given(
    plan=plans(kinds=("value", "value", "flaky", "fail", "ask"), max_size=6),
    policy=policies(),
    writers=st.sets(st.sampled_from([f"t{n}" for n in range(6)]), max_size=2),
)
def test_every_candidate_runs_as_predicted_and_none_writes(
    plan: dict[str, Any], policy: dict[str, Any], writers: set[str]
) -> None:
    world = World(marked(plan, writers), {**policy, **AHEAD}, ScriptedRunner())
    world.work()
    assume(world.stored.state.holds)
    found = foreseen(world)
    assert writers.isdisjoint(found)
    for call in approve_everything(world):
        if call.task.id in found and call.attempt == 1:
            assert call.inputs == found[call.task.id]


def value(name: str, value: Any = None, **more: Any) -> dict[str, Any]:
    task = {"id": name, "type": "tool", "tool": "statekit.value", "arguments": {"value": value}}
    return {**task, "permission_set": READER, **more}


def at_hold(*tasks: dict[str, Any], **policy: Any) -> World:
    world = World({"tasks": list(tasks)}, {**AHEAD, **policy}, ScriptedRunner())
    world.work()
    return world


@pytest.mark.parametrize(
    "task",
    [
        {"id": "b", "type": "code_execution", "language": "python", "code": "1"}
        | {"permission_set": "minimal"},
        {"id": "b", "type": "capability", "capability": "c", "permission_set": "minimal"},
        value("b", permission_set=WRITER),
        value("b", permission_set="network-api"),
        value("b", permission_set="nobody knows"),
        value("b", permission_set=None),
        value("b", {"$from": "held", "select": "length(@)"}),  # length of a number fails
    ],
)
def test_excluded_tasks_are_no_candidates(task: dict[str, Any]) -> None:
    held = value("held", 1, human_review={"trigger_phase": "AFTER_EXECUTION"})
    world = at_hold(held, {**task, "depends_on": ["held"]}, value("c", {"$from": "b"}))
    assert foreseen(world) == {}


def test_a_task_waits_for_its_own_or_its_dependencys_hold() -> None:
    review = {"trigger_phase": "AFTER_EXECUTION"}
    world = at_hold(
        value("x", human_review=review),
        value("y", human_review=review),
        value("of_y", {"$from": "y"}),
        value("of_of_y", {"$from": "of_y"}),
    )
    with world.journal.open(world.id, expected_version=None) as run:
        named = {name: blocking_hold(run, name) for name in ("x", "of_y", "of_of_y")}
    assert {name: hold.task_id for name, hold in named.items() if hold} == {
        "x": "x",
        "of_y": "y",
        "of_of_y": "y",
    }


def test_a_plan_change_under_review_is_assumed_accepted() -> None:
    journal, runner = MemoryJournal(), ScriptedRunner()
    plan = parse_plan({"tasks": [value("a", 1), value("b", {"$from": "a"})]})
    policy = Policy.model_validate({**REVIEW, **AGENT, **AHEAD})
    execution = journal.create(plan, policy=policy)
    ports = Ports(journal, runner, Asks(), ReadingIdeas(), summarise=lambda run: "")
    while step(execution, ports):
        pass
    with journal.open(execution, expected_version=None) as run:
        (hold,) = run.state.holds
        assert hold.reason == "replan_review"
        assert {each.task.id for each in candidates(run, {})} == {"b", "x", "lone"}


class ReadingIdeas(Ideas):
    """The same, with tools that read."""

    def replan(self, *, plan: Plan, **facts: Any) -> NewPlan:
        new = super().replan(plan=plan, **facts)
        read = [task.model_copy(update={"permission_set": READER}) for task in new.plan.tasks]
        return NewPlan(Plan(tasks=tuple(read)), new.why)


def test_a_running_execution_has_no_candidates() -> None:
    world = at_hold(value("held", human_review={"trigger_phase": "BEFORE_EXECUTION"}), value("b"))
    approve_everything(world)
    with world.journal.open(world.id, expected_version=None) as run:
        assert not may_speculate(run)


def test_the_key_depends_on_every_relevant_field() -> None:
    plan = at_hold(value("a"), value("b")).plan
    a, b = plan.by_id["a"], plan.by_id["b"]
    wide = NAMED["filesystem"]
    digests = {
        result_digest(a, {"value": 1}, PermissionSet()),
        result_digest(b, {"value": 1}, PermissionSet()),
        result_digest(a, {"value": 2}, PermissionSet()),
        result_digest(a, {"value": 1}, wide),
        result_digest(a.model_copy(update={"tool": "other"}), {"value": 1}, PermissionSet()),
    }
    assert len(digests) == 5
    same = result_digest(a, {"y": 1, "value": 1.0}, PermissionSet())
    assert same == result_digest(a, {"value": 1, "y": 1}, PermissionSet())
