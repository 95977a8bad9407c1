"""Random plans, ends and orders of decisions: the engine always comes to the right end."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.memory_journal import LEASE_SECONDS, Busy, MemoryJournal, Stored
from tests.stateful.oracle import ESCALATION, Outcome, Told, Verdict, expected, has_failed
from tests.stateful.plans import INPUTS, plans, policies, tasks
from tests.stateful.scripted import PowerCut, ScriptedRunner
from workflows.engine import commands as cmd
from workflows.engine import events as ev
from workflows.engine.decide import Refused
from workflows.engine.loop import step, submit
from workflows.engine.policy import Policy
from workflows.engine.ports import AgentAnswer, AgentQuestion, Ports, TaskFailed, Watch
from workflows.engine.state import Hold, HoldReason
from workflows.engine.status import ExecutionStatus
from workflows.engine.structure import parse_plan

#: More steps than any of these runs can need: whoever needs more is going round in circles.
MANY = 400
KINDS = ("value", "value", "flaky", "late", "fail", "ask")


class CalmAgent:
    """Always goes on."""

    def ask(self, question: AgentQuestion, watch: Watch) -> AgentAnswer:
        return AgentAnswer("continue", "fine")


class NoPlanner:
    """Has no plan."""

    def replan(self, **facts: Any) -> Any:
        raise TaskFailed("no planner is configured")


class World:
    """One execution in memory, what was decided about it, and a clock."""

    def __init__(
        self, plan: dict[str, Any], policy: dict[str, Any], runner: ScriptedRunner, **more: Any
    ) -> None:
        self.journal = MemoryJournal(**more)
        self.runner = runner
        self.plan = parse_plan(plan)
        self.id = self.journal.create(
            self.plan, policy=Policy.model_validate(policy), inputs=INPUTS
        )
        self.told = Told(inputs=INPUTS)
        self.ports = Ports(
            self.journal, self.runner, CalmAgent(), NoPlanner(), summarise=lambda run: "summary"
        )

    @property
    def stored(self) -> Stored:
        return self.journal.executions[self.id]

    @property
    def status(self) -> ExecutionStatus:
        return self.stored.state.status

    def work(self) -> None:
        """What a worker does, and what a sweeper does when the worker is gone."""
        try:
            while step(self.id, self.ports):
                pass
        except PowerCut:
            self.journal.now += LEASE_SECONDS + 1

    def wait(self) -> None:
        """Nobody has anything to do: something must be there that ends the wait."""
        stored = self.stored
        if stored.state.status.is_final or stored.has_work(self.journal.now):
            return
        assert stored.state.holds or stored.wake_at is not None, "a wait without an end"
        if stored.wake_at is not None:
            self.journal.now = max(self.journal.now, stored.wake_at)

    def submit(self, command: Any, actor: str = "ann") -> None:
        submit(self.id, command, self.ports, actor=actor, source="test")

    def decide(self, hold: Hold, *, approved: bool, edits: Any = None, actor: str = "ann") -> None:
        """Answer a hold, and remember the answer if it completes the decision."""
        complete = not approved or len(hold.approvals) + 1 >= hold.quorum
        self.submit(
            cmd.ApprovalResponse(hold=hold.id, approved=approved, edits=edits), actor=actor
        )
        if complete:
            self.remember(hold, Verdict(approved, edits))

    def expire(self, hold: Hold) -> None:
        """Move the clock to the hold's deadline and let time decide."""
        self.journal.now = max(self.journal.now, self.stored.deadlines[hold.id])
        self.submit(cmd.ExpireHold(hold=hold.id), actor="system")
        self.remember(hold, Verdict(hold.on_timeout in ("approve", "continue")))

    def remember(self, hold: Hold, verdict: Verdict) -> None:
        if hold.task_id:
            phase = hold.phase.value if hold.phase else ESCALATION
            self.told.verdicts[hold.task_id, phase] = verdict

    def edits(self, hold: Hold) -> Any:
        """A reviewer's edit for this hold, if it takes one."""
        if hold.reason is not HoldReason.NODE_REVIEW or len(hold.approvals) + 1 < hold.quorum:
            return None
        changed = f"edited {hold.id}"
        return {"value": changed} if hold.phase == "BEFORE_EXECUTION" else changed


def check_end(world: World) -> None:
    """Every settled task ended as the oracle says, once, and so did the execution."""
    stored = world.stored
    assert stored.state.version == len(stored.events)
    settled = {
        name: Outcome(each.status.value, each.skip.value if each.skip else "", each.output)
        for name, each in stored.settled.items()
    }
    ends = expected(stored.revisions[stored.state.revision].plan, world.told)
    for name, end in settled.items():
        assert ends[name].status == end.status, name
        assert ends[name].skip == end.skip, name
        if end.status == "SUCCEEDED":
            assert ends[name].output == end.output, name
    succeeded = [each.task_id for each in stored.events if each.kind == "task_succeeded"]
    assert len(succeeded) == len(set(succeeded))
    if world.status is ExecutionStatus.ABORTED:
        return
    plan = stored.revisions[stored.state.revision].plan
    assert settled.keys() == plan.by_id.keys()
    assert (world.status is ExecutionStatus.FAILED) == has_failed(plan, ends)


def check_no_hold_was_passed(world: World) -> None:
    """Events of a task with a BEFORE review follow the approval; so do readers of an AFTER one."""
    approved = set()
    for event in world.stored.events:
        if event.kind == "hold_decided" and event.decision == "APPROVE":
            approved.add((event.task_id, event.phase))
        if event.kind == "task_succeeded":
            task = world.stored.revisions[world.stored.state.revision].plan.by_id[event.task_id]
            review = task.human_review
            if review and review.trigger_phase == "BEFORE_EXECUTION":
                assert (task.id, "BEFORE_EXECUTION") in approved


def decide_somehow(world: World, data: st.DataObject) -> None:
    """One answer to one of the open holds."""
    hold = data.draw(st.sampled_from(world.stored.state.holds), label="hold")
    ways = ["approve", "approve", "reject"]
    if hold.id in world.stored.deadlines:
        ways.append("expire")
    match data.draw(st.sampled_from(ways), label="way"):
        case "expire":
            world.expire(hold)
        case "reject":
            world.decide(hold, approved=False)
        case "approve":
            edits = world.edits(hold) if data.draw(st.booleans(), label="edits") else None
            actor = "bob" if "ann" in hold.approvals else "ann"
            world.decide(hold, approved=True, edits=edits, actor=actor)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    plan=plans(server="unit", kinds=KINDS, max_size=8),
    policy=policies(),
    batch_size=st.integers(1, 3),
    slice_moves=st.integers(1, 40),
    data=st.data(),
)
def test_every_run_comes_to_the_right_end(
    plan: dict[str, Any],
    policy: dict[str, Any],
    batch_size: int,
    slice_moves: int,
    data: st.DataObject,
) -> None:
    cuts = iter(data.draw(st.lists(st.booleans(), max_size=6), label="power cuts"))
    runner = ScriptedRunner(batch_size=batch_size, cut=lambda: next(cuts, False))
    world = World(plan, policy, runner, slice_moves=slice_moves)
    for _ in range(MANY):
        if world.status.is_final:
            break
        world.work()
        world.wait()
        if world.stored.state.holds and not world.stored.is_held(world.journal.now):
            decide_somehow(world, data)
    assert world.status.is_final
    check_end(world)
    check_no_hold_was_passed(world)
    keys = {(call.task.id, call.attempt): call.key for call in runner.calls}
    assert len(set(keys.values())) == len(keys)
    assert all(keys[call.task.id, call.attempt] == call.key for call in runner.calls)


COMMANDS = ("update_state", "skip_layer", "modify_args", "inject_task", "continue", "replan")


def a_command(world: World, number: int, data: st.DataObject) -> Any:
    """A command that may or may not apply."""
    names = sorted(world.stored.revisions[world.stored.state.revision].plan.by_id)
    match data.draw(st.sampled_from(COMMANDS), label="command"):
        case "skip_layer":
            return cmd.SkipLayer(layer=data.draw(st.one_of(st.none(), st.integers(0, 4))))
        case "modify_args":
            name = data.draw(st.sampled_from(names))
            return cmd.ModifyArgs(task_id=name, arguments={"value": f"changed {number}"})
        case "inject_task":
            raw = data.draw(tasks(f"n{number}", names, server="unit", kinds=KINDS))
            return cmd.InjectTask(task=parse_plan({"tasks": [raw | {"depends_on": []}]}).tasks[0]) \
                if not _reads(raw) else cmd.load_command({"kind": "inject_task", "task": raw})
        case "continue":
            return cmd.Continue()
        case "replan":
            return cmd.Replan(new_requirement="more")
    return cmd.UpdateState(updates={f"k{number}": number})
