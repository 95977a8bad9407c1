"""A decision with an undo time has no effect before it is carried out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stateful.scripted import ScriptedRunner
from tests.support.actors import actor_named, user_id
from tests.support.memory_journal import MemoryJournal
from workflows.engine.plans.dag import ToolTask
from workflows.engine.plans.validation import parse_plan
from workflows.engine.policy.policies import Policy
from workflows.engine.protocol.commands import (
    ApprovalResponse,
    ExpireHold,
    InjectTask,
    SettleAnswer,
    WithdrawAnswer,
)
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.events import HoldAnswered, HoldDecided, HoldWithdrawn
from workflows.engine.protocol.loop import step, submit
from workflows.engine.protocol.ports import Ports
from workflows.engine.protocol.state import ExecutionState, dump_state, load_state
from workflows.engine.protocol.status import ExecutionStatus


class NoAgents:
    def ask(self, *_: Any) -> Any:
        raise AssertionError("nobody asks an agent here")


class NoPlanner:
    def replan(self, **facts: Any) -> Any:
        raise AssertionError("nobody replans here")


class World:
    """One execution in memory, driven by hand."""

    def __init__(self, *tasks: dict[str, Any], **policy: Any) -> None:
        self.journal = MemoryJournal()
        self.ports = Ports(
            journal=self.journal,
            runner=ScriptedRunner(),
            agents=NoAgents(),
            planner=NoPlanner(),
            summarise=lambda run: "",
        )
        plan = parse_plan({"tasks": list(tasks)})
        self.id = self.journal.create(plan, policy=Policy.model_validate(policy))
        self.drive()

    def drive(self) -> ExecutionState:
        while step(self.id, self.ports):
            pass
        return self.state

    def say(self, command: Any, actor: str = "ann") -> None:
        submit(self.id, command, self.ports, actor=actor_named(actor), source="test")

    def answer(self, actor: str = "ann", **said: Any) -> None:
        said = {"hold": self.state.holds[0].id, "approved": True, "undo_seconds": 5, **said}
        self.say(ApprovalResponse(**said), actor)

    @property
    def state(self) -> ExecutionState:
        return self.journal.executions[self.id].state

    @property
    def events(self) -> list[Any]:
        return self.journal.executions[self.id].events

    @property
    def hold(self) -> str:
        return self.state.holds[0].id


def task(name: str, phase: str = "BEFORE_EXECUTION", **review: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": name,
        "type": "tool",
        "tool": "unit.value",
        "arguments": {"value": name},
    }
    if phase:
        found["human_review"] = {"trigger_phase": phase, **review}
    return found


def test_a_decision_is_pending_until_it_is_carried_out() -> None:
    world = World(task("a"))
    world.answer(edits={"value": "edited"}, feedback="shorter")
    assert isinstance(world.events[-1], HoldAnswered)
    assert world.state.status is ExecutionStatus.PAUSED_FOR_REVIEW
    version = world.state.version
    world.drive()
    assert world.state.version == version, "a worker goes past an answer that rests"
    world.say(SettleAnswer(hold=world.hold), "system")
    decided = world.events[-1]
    assert isinstance(decided, HoldDecided)
    assert (decided.answered, decided.resumed, decided.edits) == (True, True, {"value": "edited"})
    assert decided.comment == "shorter"
    assert world.drive().status is ExecutionStatus.COMPLETED


@pytest.mark.parametrize("approved", [True, False])
def test_a_withdrawal_restores_the_hold(approved: bool) -> None:
    world = World(task("a"))
    before = world.state
    world.answer(approved=approved)
    world.say(WithdrawAnswer(hold=world.hold, of=user_id("ann")))
    assert isinstance(world.events[-1], HoldWithdrawn)
    after = world.state
    assert after.version == before.version + 2
    assert dump_state(after).replace(f'"version":{after.version}', "") == dump_state(
        before
    ).replace(f'"version":{before.version}', "")
    with pytest.raises(Refused, match="no answer that waits"):
        world.say(SettleAnswer(hold=world.hold))


def test_a_carried_out_decision_is_not_withdrawn() -> None:
    world = World(task("a"), task("b"))
    hold = world.hold
    world.answer()
    world.say(SettleAnswer(hold=hold))
    with pytest.raises(Refused, match="has taken effect") as refused:
        world.say(WithdrawAnswer(hold=hold, of=user_id("ann")))
    assert refused.value.code == "gone_on"


def test_a_vote_can_be_withdrawn_while_the_hold_is_open() -> None:
    world = World(task("a", quorum=2))
    world.answer()
    assert world.state.holds[0].approvals == ("ann",), "a vote needs no time to undo"
    with pytest.raises(Refused, match="nothing to take back"):
        world.say(WithdrawAnswer(hold=world.hold, of=user_id("bob")), "bob")
    world.say(WithdrawAnswer(hold=world.hold, of=user_id("ann")))
    assert world.state.holds[0].approvals == ()
    world.answer("bob")
    world.answer("ann")
    with pytest.raises(Refused, match="nothing to take back"):
        world.say(WithdrawAnswer(hold=world.hold, of=user_id("bob")), "bob")
    world.say(WithdrawAnswer(hold=world.hold, of=user_id("ann")))
    assert world.state.holds[0].approvals == ("bob",)


def test_a_pending_decision_takes_no_other_and_does_not_expire() -> None:
    world = World(task("a", timeout_seconds=5))
    world.answer()
    for command in (
        ApprovalResponse(hold=world.hold, approved=False),
        ExpireHold(hold=world.hold),
    ):
        with pytest.raises(Refused, match="ann has decided"):
            world.say(command, "bob")


def test_an_inapplicable_decision_is_refused_at_once() -> None:
    world = World(task("a", ""), hil={"enabled": True})
    with pytest.raises(Refused, match="takes edits"):
        world.answer(edits={"value": 1})
    assert world.state.holds[0].answer is None


def test_a_pending_rejection_aborts_nothing() -> None:
    world = World(task("a"))
    world.answer(approved=False)
    assert not world.state.status.is_final
    world.say(SettleAnswer(hold=world.hold))
    assert world.state.status is ExecutionStatus.ABORTED


def test_the_run_continues_after_the_last_of_two_decisions() -> None:
    world = World(task("a"), task("b"))
    first, second = (hold.id for hold in world.state.holds)
    world.answer()
    world.say(ApprovalResponse(hold=second, approved=True))
    assert world.state.status is ExecutionStatus.PAUSED_FOR_REVIEW
    world.say(SettleAnswer(hold=first))
    assert world.drive().status is ExecutionStatus.COMPLETED


def test_a_plan_change_during_a_pending_layer_approval_requests_it_again() -> None:
    world = World(task("a", ""), hil={"enabled": True})
    hold = world.hold
    world.answer()
    more = ToolTask(id="b", type="tool", tool="unit.value", arguments={"value": 1})
    world.say(InjectTask(task=more))
    world.say(SettleAnswer(hold=hold))
    assert world.drive().holds, "what was signed is not what would run"


@given(
    answers=st.lists(st.sampled_from(["ann", "bob", "cid"]), min_size=1, max_size=6),
    quorum=st.integers(1, 3),
)
def test_any_order_of_decisions_and_withdrawals_leaves_a_readable_state(
    answers: list[str], quorum: int
) -> None:
    """Each name answers, or takes back what it said; the hold counts who stands by it."""
    world = World(task("a", quorum=quorum))
    standing: set[str] = set()
    for name in answers:
        hold = world.state.holds[0]
        if hold.answer is not None and hold.answer.actor != name:
            continue
        if name in standing:
            world.say(WithdrawAnswer(hold=hold.id, of=user_id(name)), name)
            standing.discard(name)
        else:
            world.answer(name)
            standing.add(name)
        hold = world.state.holds[0]
        said = {*hold.approvals, *([hold.answer.actor] if hold.answer else [])}
        assert said == standing
        assert (hold.answer is not None) == (len(standing) == quorum)
        assert (
            load_state({**json.loads(dump_state(world.state)), "version": world.state.version})
            == world.state
        )
    assert world.state.status is ExecutionStatus.PAUSED_FOR_REVIEW
