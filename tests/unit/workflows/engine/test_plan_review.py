"""Reviews of plan changes: no command bypasses one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.stateful.scripted import ScriptedRunner
from tests.support.actors import actor_named
from tests.support.memory_journal import MemoryJournal
from workflows.engine.plans.dag import Plan, ToolTask
from workflows.engine.plans.validation import parse_plan
from workflows.engine.policy.policies import Policy
from workflows.engine.protocol.commands import (
    Abort,
    ApprovalResponse,
    Continue,
    ExpireHold,
    InjectTask,
    ModifyArgs,
    Replan,
)
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.loop import step, submit
from workflows.engine.protocol.ports import AgentAnswer, AgentQuestion, Heartbeat, NewPlan, Ports
from workflows.engine.protocol.state import ExecutionState, HoldReason
from workflows.engine.protocol.status import ExecutionStatus

REVIEW = {"replan_review": True}
AGENT = {"ail": {"enabled": True, "agent": "rules"}}
EXTERNAL = {"ail": {"enabled": True, "agent": "external"}}
WISH = Replan(new_requirement="more", available_context={"k": 1})


def task(name: str, *needs: str) -> ToolTask:
    return ToolTask(
        id=name, type="tool", tool="unit.value", arguments={"value": name}, depends_on=needs
    )


#: What the planner adds: two of them need the first.
IDEAS = (task("x", "a"), task("y", "x"), task("z", "y"), task("lone", "a"))


class Ideas:
    """Adds the same tasks, once."""

    def replan(self, *, plan: Plan, **facts: Any) -> NewPlan:
        new = tuple(each for each in IDEAS if each.id not in plan.by_id)
        why = {
            each.id: {"tool": each.tool, "confidence": 0.8, "reasons": ["it fits"]} for each in new
        }
        return NewPlan(Plan(tasks=(*plan.tasks, *new)), why)


class Asks:
    """An agent that wants a replan after the first layer."""

    def ask(self, question: AgentQuestion, heartbeat: Heartbeat) -> AgentAnswer:
        if question.layer:
            return AgentAnswer("continue")
        return AgentAnswer("replan", "found something", requirement="more")


class World:
    """One run in memory: a → b."""

    def __init__(
        self, policy: dict[str, Any], *, plan: dict[str, Any] | None = None, slices: int = 1000
    ) -> None:
        self.journal = MemoryJournal(slice_moves=slices)
        written = plan or {"tasks": [_written(task("a")), _written(task("b", "a"))]}
        self.id = self.journal.create(parse_plan(written), policy=Policy.model_validate(policy))
        self.ports = Ports(
            self.journal, ScriptedRunner(batch_size=9), Asks(), Ideas(), summarise=lambda run: ""
        )

    @property
    def state(self) -> ExecutionState:
        return self.journal.executions[self.id].state

    @property
    def plan(self) -> set[str]:
        stored = self.journal.executions[self.id]
        return set(stored.revisions[stored.state.revision].plan.by_id)

    @property
    def done(self) -> set[str]:
        return set(self.journal.executions[self.id].finished)

    def work(self) -> World:
        while step(self.id, self.ports):
            pass
        return self

    def tell(self, command: object) -> World:
        submit(self.id, command, self.ports, actor=actor_named("ann"), source="test")
        return self

    def answer(self, *, approved: bool = True, **more: Any) -> World:
        (hold,) = self.state.holds
        return self.tell(ApprovalResponse(hold=hold.id, approved=approved, **more)).work()

    def kinds(self) -> list[str]:
        return [event.kind for event in self.journal.executions[self.id].events]


def _written(each: ToolTask) -> dict[str, Any]:
    return each.model_dump(mode="json", exclude_none=True)


def proposed(**more: Any) -> World:
    """A run whose agent wanted a replan; it stands before the review."""
    world = World({**AGENT, **REVIEW}, **more).work()
    (hold,) = world.state.holds
    assert (hold.reason, hold.decider) == (HoldReason.REPLAN_REVIEW, "human")
    assert world.state.status is ExecutionStatus.PAUSED_FOR_REVIEW
    assert world.done == {"a"}
    return world


def test_an_accepted_change_becomes_the_plan() -> None:
    world = proposed().answer()
    assert world.state.status is ExecutionStatus.COMPLETED
    assert world.done == {"a", "b", "x", "y", "z", "lone"}


def test_a_dropped_task_drops_its_dependents() -> None:
    world = proposed().answer(edits={"drop": ["y"]})
    assert world.done == {"a", "b", "x", "lone"}
    assert world.state.status is ExecutionStatus.COMPLETED


@pytest.mark.parametrize(
    ("edits", "code"),
    [
        ({"drop": ["x", "lone"]}, "nothing_left"),
        ({"drop": ["b"]}, "bad_edits"),
        ({"drop": "x"}, "bad_edits"),
        ({"keep": ["x"]}, "bad_edits"),
        (["x"], "bad_edits"),
    ],
)
def test_an_invalid_drop_is_refused_and_the_hold_stays(edits: Any, code: str) -> None:
    world = proposed()
    with pytest.raises(Refused) as refused:
        world.answer(edits=edits)
    assert refused.value.code == code
    assert len(world.state.holds) == 1


def test_a_rejected_change_keeps_the_plan() -> None:
    world = proposed().answer(approved=False)
    assert world.state.status is ExecutionStatus.COMPLETED
    assert world.plan == world.done == {"a", "b"}


@pytest.mark.parametrize(
    ("on_timeout", "done"), [("reject", {"a", "b"}), ("approve", {"a", "b", "x", "y", "z", "lone"})]
)
def test_an_overdue_change_is_decided_by_the_policy(on_timeout: str, done: set[str]) -> None:
    review = {"enabled": True, "timeout_seconds": 60, "on_timeout": on_timeout}
    world = World({**AGENT, "replan_review": review}).work()
    (hold,) = world.state.holds
    world.tell(ExpireHold(hold=hold.id)).work()
    assert (world.state.status, world.done) == (ExecutionStatus.COMPLETED, done)


def test_without_a_deadline_the_change_keeps_waiting() -> None:
    world = proposed()
    with pytest.raises(Refused, match="has no end"):
        world.tell(ExpireHold(hold=world.state.holds[0].id))


def test_an_outdated_change_is_rejected_when_it_expires() -> None:
    review = {"enabled": True, "timeout_seconds": 60, "on_timeout": "approve"}
    world = World({**AGENT, "replan_review": review}).work()
    stored = world.journal.executions[world.id]
    revision = stored.revisions[stored.state.revision]
    # As if a task of that name had come into the plan by another way.
    plan = Plan(tasks=(*revision.plan.tasks, task("x", "a")))
    stored.revisions[revision.number] = type(revision)(revision.number, plan, plan.layers())
    world.tell(ExpireHold(hold=stored.state.holds[0].id))
    assert world.state.holds == ()
    assert world.kinds()[-2:] == ["hold_expired", "hold_decided"]
    assert "plan_revised" not in world.kinds()


def test_an_external_agents_replan_waits_for_its_review() -> None:
    """The agent's hold is decided in one step, the review opens in another: between them nothing
    but the review can be next."""
    world = World({**EXTERNAL, **REVIEW}, slices=1).work()
    world.tell(WISH)
    assert world.state.status is ExecutionStatus.RUNNING
    assert world.state.holds == ()
    step(world.id, world.ports)
    (hold,) = world.state.holds
    assert hold.reason is HoldReason.REPLAN_REVIEW
    assert world.done == {"a"}
    assert "context_updated" not in world.kinds()
    world.answer()
    while world.state.holds:
        world.tell(Continue()).work()
    assert world.state.status is ExecutionStatus.COMPLETED
    assert {"x", "y", "z", "lone"} <= world.done
    assert "context_updated" in world.kinds()


def test_before_the_run_begins_the_review_comes_before_the_first_layer() -> None:
    plan = {"tasks": [_written(task("a")), _written(task("b", "a"))]}
    world = World(REVIEW, plan=plan).tell(WISH).work()
    assert world.done == set()
    assert world.state.holds[0].reason is HoldReason.REPLAN_REVIEW
    assert world.answer(approved=False).done == {"a", "b"}


@pytest.mark.parametrize("command", [Continue(), WISH], ids=["continue", "another replan"])
def test_no_other_command_bypasses_the_review(command: object) -> None:
    world = proposed()
    with pytest.raises(Refused):
        world.tell(command)
    assert step(world.id, world.ports) is False
    assert world.done == {"a"}


@pytest.mark.parametrize(
    "command",
    [
        InjectTask(task=task("x")),
        InjectTask(task=task("mine", "a")),
        ModifyArgs(task_id="b", arguments={"value": "other"}),
    ],
    ids=["inject the same", "inject another", "modify"],
)
def test_no_second_plan_change_is_accepted_while_one_waits(command: object) -> None:
    world = proposed()
    with pytest.raises(Refused) as refused:
        world.tell(command)
    assert refused.value.code == "replan_open"
    assert world.answer().done == {"a", "b", "x", "y", "z", "lone"}


@pytest.mark.parametrize(
    ("command", "plan"),
    [
        (InjectTask(task=task("mine", "a")), {"a", "b", "mine"}),
        (ModifyArgs(task_id="b", arguments={"value": "other"}), {"a", "b"}),
    ],
    ids=["inject", "modify"],
)
@pytest.mark.parametrize("approved", [True, False])
def test_a_change_by_a_command_is_reviewed_like_a_replan(
    command: object, plan: set[str], approved: bool
) -> None:
    """Otherwise an agent whose replan has to wait would change the plan by another command."""
    world = World({"per_layer_validation": True, **REVIEW}).work()
    world.tell(command).work()
    (hold,) = world.state.holds
    assert (hold.reason, world.done) == (HoldReason.LAYER_VALIDATION, {"a"})
    world.tell(Continue()).work()
    (hold,) = world.state.holds
    assert (hold.reason, world.done) == (HoldReason.REPLAN_REVIEW, {"a"})
    world.answer(approved=approved)
    assert world.plan == (plan if approved else {"a", "b"})
    value = world.journal.executions[world.id].finished["b"].output
    changed = approved and isinstance(command, ModifyArgs)
    assert value == ("other" if changed else "b")
    assert world.state.replans == 0


def test_an_abort_closes_the_review() -> None:
    world = proposed().tell(Abort())
    assert world.state.status is ExecutionStatus.ABORTED
    assert (world.state.holds, world.state.proposal) == ((), None)


def test_in_the_last_layer_the_run_does_not_end_without_the_review() -> None:
    world = proposed(plan={"tasks": [_written(task("a"))]})
    assert world.answer().done == {"a", "x", "y", "z", "lone"}


def test_rejected_changes_count_against_the_limit() -> None:
    plan = {"tasks": [_written(task("a")), _written(task("b", "a")), _written(task("c", "b"))]}
    world = World({"per_layer_validation": True, **REVIEW}, plan=plan).work()
    world.ports = Ports(
        world.journal, ScriptedRunner(batch_size=9), Asks(), Ideas(), lambda run: "", max_replans=1
    )
    world.tell(WISH).work()
    assert world.answer(approved=False).done == {"a", "b"}
    with pytest.raises(Refused, match="at most 1 times"):
        world.tell(WISH)


@pytest.mark.parametrize(
    ("base", "override", "enabled"),
    [
        ({}, {}, False),
        ({}, {"replan_review": True}, True),
        ({"replan_review": True}, {"replan_review": False}, False),
        ({"replan_review": {"enabled": True, "groups": ["legal"]}}, {"replan_review": True}, True),
    ],
)
def test_the_policy_accepts_a_flag_or_an_object(
    base: dict[str, Any], override: dict[str, Any], enabled: bool
) -> None:
    review = Policy.model_validate(base).overridden_by(override).replan_review
    assert review.enabled is enabled
    if isinstance(base.get("replan_review"), dict):
        assert review.groups == ("legal",)


@pytest.mark.parametrize("decision", ["abort", "continue"])
def test_an_overlong_message_loses_no_decision(decision: str) -> None:
    """A report of a large layer discarded the answer that came with it, `abort` included."""

    class Talks:
        def ask(self, question: AgentQuestion, heartbeat: Heartbeat) -> AgentAnswer:
            long = {"role": "tool", "content": "x" * 3_000_000}
            return AgentAnswer(decision, "because", messages=(long,))  # type: ignore[arg-type]

    world = World(AGENT)
    world.ports = replace(world.ports, agents=Talks())
    ended = {"abort": ExecutionStatus.ABORTED, "continue": ExecutionStatus.COMPLETED}
    assert world.work().state.status is ended[decision]
    assert "agent_failed" not in world.kinds()
    events = world.journal.executions[world.id].events
    (said, *_) = [event.content for event in events if event.kind == "message_added"]
    assert len(said) == 2_000_000
    assert said.endswith("(cut: 3000000 characters)")


def test_validation_after_the_last_layer_can_add_layers_or_end_the_run() -> None:
    policy = {"per_layer_validation": True, "validate_last_layer": True}
    world = World(policy, plan={"tasks": [_written(task("a"))]}).work()
    (hold,) = world.state.holds
    assert (hold.reason, world.done) == (HoldReason.LAYER_VALIDATION, {"a"})
    world.tell(WISH).work()
    while not world.state.status.is_final:
        world.tell(Continue()).work()
    assert world.state.status is ExecutionStatus.COMPLETED
    assert world.done == {"a", "x", "y", "z", "lone"}
    opened = [event for event in world.kinds() if event == "hold_opened"]
    assert len(opened) == 4, "after each of the four layers"
