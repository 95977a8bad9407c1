"""External actions: the caller runs them, and the run waits only for people and the caller."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.support.actors import actor_named
from tests.support.memory_journal import MemoryJournal
from workflows.engine.plans.dag import ExternalActionTask, Plan
from workflows.engine.plans.risk import is_critical
from workflows.engine.plans.validation import PlanInvalid, parse_plan
from workflows.engine.protocol import commands as cmd
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.evolve import replay
from workflows.engine.protocol.loop import step, submit
from workflows.engine.protocol.ports import Ports, Success, TaskCall, TaskResult
from workflows.engine.protocol.state import ExecutionState, HoldReason, dump_state, load_state
from workflows.engine.protocol.status import ExecutionStatus
from workflows.engine.values.bounded_json import digest

BEFORE, AFTER = "BEFORE_EXECUTION", "AFTER_EXECUTION"
PAY = {"to": "acme", "amount": 10, "note": {"$from": "context"}, "memo": None}


class CallerRunner:
    """Runs external actions as the layer runner does."""

    def run(self, calls: Sequence[TaskCall], heartbeat: Any) -> Iterator[Sequence[TaskResult]]:
        yield [
            TaskResult(call, Success(call.task.result(call.inputs), 0))  # type: ignore[union-attr]
            for call in calls
        ]


class World:
    """One approval in memory."""

    def __init__(self, phase: str = BEFORE, output: Any = None, **fields: Any) -> None:
        self.journal = MemoryJournal()
        self.ports = Ports(
            journal=self.journal,
            runner=CallerRunner(),
            agents=None,  # type: ignore[arg-type]
            planner=None,  # type: ignore[arg-type]
            summarise=lambda run: "",
        )
        review = {"trigger_phase": phase, **fields.pop("review", {})}
        task = {
            "id": "pay",
            "type": "external_action",
            "action": "payments.transfer",
            "arguments": PAY,
            "output": output,
            "human_review": review,
            **fields,
        }
        self.id = self.journal.create(Plan.model_validate({"tasks": [task]}))
        self.drive()

    def drive(self) -> ExecutionState:
        while step(self.id, self.ports):
            pass
        return self.state

    @property
    def state(self) -> ExecutionState:
        with self.journal.open(self.id, expected_version=None) as run:
            return run.state

    def send(self, command: object, actor: str = "ann") -> ExecutionState:
        submit(self.id, command, self.ports, actor=actor_named(actor), source="test")
        return self.drive()

    def decide(self, approved: bool = False, **fields: Any) -> ExecutionState:
        hold = self.state.holds[0].id
        return self.send(cmd.ApprovalResponse(hold=hold, approved=approved, **fields))

    def ask_for_changes(self, comment: str = "pay less") -> ExecutionState:
        return self.decide(request_changes=True, feedback=comment)

    @property
    def events(self) -> list[Any]:
        return list(self.journal.executions[self.id].events)

    def payload(self) -> Any:
        opened = [each for each in self.events if each.kind == "hold_opened"]
        return opened[-1].opening

    def output(self) -> Any:
        with self.journal.open(self.id, expected_version=None) as run:
            return run.finished_tasks(["pay"])["pay"].output


def test_an_action_is_held_before_anything_and_ends_with_what_was_decided() -> None:
    world = World()
    assert world.state.holds[0].reason is HoldReason.NODE_REVIEW
    assert world.payload()["payload"] == PAY
    assert world.payload()["target"] == "payments.transfer"
    assert (world.payload()["round"], world.payload()["changes_left"]) == (1, 3)
    after = world.decide(approved=True, edits={"amount": 7})
    assert after.status is ExecutionStatus.COMPLETED
    assert world.output() == {"arguments": {**PAY, "amount": 7}}
    succeeded = next(each for each in world.events if each.kind == "task_succeeded")
    assert succeeded.executed_digest == ""


def test_a_rejection_ends_the_run_with_its_comment() -> None:
    world = World()
    assert world.decide(feedback="not this year").status is ExecutionStatus.ABORTED
    assert world.events[-1].reason == "not this year"


@pytest.mark.parametrize("phase", [BEFORE, AFTER])
def test_changes_go_through_the_caller_and_open_the_next_round(phase: str) -> None:
    world = World(phase, output="first")
    first = world.state.holds[0].id
    waiting = world.ask_for_changes()
    assert (waiting.status, waiting.holds) == (ExecutionStatus.RUNNING, ())
    assert waiting.tasks["pay"].waits_for_caller
    version = waiting.version
    assert world.drive().version == version
    world.send(cmd.ResubmitAction(arguments={"to": "acme"}, output="second"), "bot")
    opening = world.payload()
    assert (opening["round"], opening["previous_id"], opening["changes_left"]) == (2, first, 2)
    assert opening["payload"] == ({"to": "acme"} if phase == BEFORE else "second")
    assert world.decide(approved=True).status is ExecutionStatus.COMPLETED
    assert world.output() == ({"arguments": {"to": "acme"}} if phase == BEFORE else "second")


def test_edits_do_not_outlive_the_round_they_were_made_in() -> None:
    world = World(review={"quorum": 1})
    world.ask_for_changes()
    world.send(cmd.ResubmitAction(arguments={"to": "bolt", "amount": 3}), "bot")
    assert world.decide(approved=True, edits={"amount": 2}).status is ExecutionStatus.COMPLETED
    assert world.output() == {"arguments": {"to": "bolt", "amount": 2}}


def test_changes_can_be_requested_a_limited_number_of_times() -> None:
    world = World(review={"max_change_requests": 1})
    world.ask_for_changes()
    world.send(cmd.ResubmitAction(arguments=PAY), "bot")
    with pytest.raises(Refused) as refused:
        world.ask_for_changes()
    assert refused.value.code == "no_more_changes"


def test_only_a_sent_back_action_is_submitted_again() -> None:
    world = World()
    with pytest.raises(Refused) as refused:
        world.send(cmd.ResubmitAction(arguments=PAY), "bot")
    assert refused.value.code == "not_waiting"


def test_a_run_that_waits_for_its_caller_can_be_aborted() -> None:
    world = World()
    world.ask_for_changes()
    assert world.send(cmd.Abort(reason="too late"), "bot").status is ExecutionStatus.ABORTED


@pytest.mark.parametrize(
    ("executed", "mismatch"),
    [
        ({**PAY, "amount": 10.0}, False),
        (dict(reversed(PAY.items())), False),
        ({**PAY, "amount": 11}, True),
        ({key: value for key, value in PAY.items() if key != "memo"}, True),
    ],
)
def test_the_executed_arguments_are_compared_with_the_decided_ones(
    executed: dict[str, Any], mismatch: bool
) -> None:
    world = World()
    world.decide(approved=True)
    after = world.send(cmd.ReportResult(ok=True, executed_digest=digest(executed)), "bot")
    assert (after.status, after.result_reported) == (ExecutionStatus.COMPLETED, True)
    assert world.events[-1].mismatch is mismatch


def test_a_result_is_accepted_once_and_only_after_an_approval() -> None:
    world = World()
    with pytest.raises(Refused) as early:
        world.send(cmd.ReportResult(ok=True), "bot")
    assert early.value.code == "not_approved"
    world.decide(approved=True)
    world.send(cmd.ReportResult(ok=False, error="declined"), "bot")
    with pytest.raises(Refused) as twice:
        world.send(cmd.ReportResult(ok=True), "bot")
    assert twice.value.code == "reported"
    rejected = World()
    rejected.decide(feedback="no")
    with pytest.raises(Refused) as late:
        rejected.send(cmd.ReportResult(ok=True), "bot")
    assert late.value.code == "not_approved"


def test_the_plan_of_an_approval_never_changes() -> None:
    world = World()
    tool = {"id": "more", "type": "tool", "tool": "a.b"}
    for command in (
        cmd.InjectTask.model_validate({"task": tool}),
        cmd.Replan(new_requirement="more"),
    ):
        with pytest.raises(Refused) as refused:
            world.send(command)
        assert refused.value.code == "external_action", command


def test_no_plan_that_others_write_has_an_external_action() -> None:
    task = {"id": "a", "type": "external_action", "action": "x"}
    with pytest.raises(PlanInvalid) as invalid:
        parse_plan({"tasks": [task]})
    assert [(each.path, each.code) for each in invalid.value.problems] == [
        ("tasks[0].type", "external_action")
    ]


def test_risk_decides_whether_an_action_is_critical() -> None:
    action = {"id": "a", "type": "external_action", "action": "x"}
    assert is_critical(ExternalActionTask.model_validate(action))
    for risk, critical in (("low", False), ("medium", False), ("high", True)):
        task = ExternalActionTask.model_validate({**action, "risk": risk})
        assert is_critical(task) is critical


def test_a_stored_plan_keeps_nulls_and_references_of_the_caller() -> None:
    task = {"id": "a", "type": "external_action", "action": "x", "arguments": PAY}
    plan = Plan.model_validate({"tasks": [task]})
    stored = json.dumps(plan.model_dump(mode="json", by_alias=True, exclude_none=True))
    assert Plan.model_validate_json(stored).tasks[0].values == PAY
    assert Plan.model_validate_json(stored) == plan


def test_the_events_fold_to_the_state() -> None:
    world = World()
    world.ask_for_changes()
    world.send(cmd.ResubmitAction(arguments={"to": "acme"}), "bot")
    assert replay(world.events) == world.state
    assert load_state(json.loads(dump_state(world.state))) == world.state


def asked_for_changes(**review: Any) -> World:
    """An action that was sent back 30 s after it was asked."""
    world = World(review=review)
    world.journal.now += 30
    world.ask_for_changes()
    return world


@pytest.mark.parametrize("on_timeout", ["reject", "approve"])
def test_a_caller_that_does_not_submit_again_ends_the_run(on_timeout: str) -> None:
    world = asked_for_changes(timeout_seconds=60, on_timeout=on_timeout)
    assert world.state.tasks["pay"].waits_until == world.journal.now + 60
    world.journal.now += 59
    assert world.drive().status is ExecutionStatus.RUNNING
    world.journal.now += 1
    assert world.drive().status is ExecutionStatus.ABORTED
    ended = [each for each in world.events if each.kind == "execution_aborted"]
    assert [each.reason_code for each in ended] == ["not_resubmitted"]


def test_the_next_round_has_a_deadline_of_its_own() -> None:
    world = asked_for_changes(timeout_seconds=60)
    world.send(cmd.ResubmitAction(arguments=PAY))
    world.journal.now += 120
    state = world.drive()
    assert (len(state.holds), state.tasks["pay"].waits_until) == (1, None)
    assert replay(world.events) == state


def test_without_a_deadline_the_run_waits() -> None:
    for review in ({}, {"timeout_seconds": 60, "on_timeout": "keep_waiting"}):
        world = asked_for_changes(**review)
        for _ in range(3):
            world.journal.now += 86_400
            assert world.drive().status is ExecutionStatus.RUNNING
