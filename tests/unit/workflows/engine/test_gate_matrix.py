"""No command passes a gate: every command, in every form, at every moment, against every gate.

A gate is a decision that people have to make: a review before or after a task, one that always
happens, one that several people approve, the approval of a layer, a permission, a plan change.  The
run is `first` → `gate` → `last`.  `GUARDED` names the tasks that run only after the decision.  In
every cell the command is refused, or it changes nothing about who has to decide; then the gate is
opened by the people who may, and the tasks behind it run as they were approved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.stateful.scripted import ScriptedRunner
from tests.support.actors import actor_named
from tests.support.memory_journal import MemoryJournal, Stored
from workflows.engine.plans.dag import CodeTask, Plan, ToolTask
from workflows.engine.plans.validation import parse_plan
from workflows.engine.policy.policies import Policy, ReviewPolicy
from workflows.engine.protocol import commands as cmd
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.loop import step, submit
from workflows.engine.protocol.ports import (
    AgentAnswer,
    AgentQuestion,
    Busy,
    Heartbeat,
    NewPlan,
    Ports,
    TaskFailed,
)
from workflows.engine.protocol.required_reviews import with_reviews
from workflows.engine.protocol.state import Hold, HoldReason
from workflows.engine.protocol.status import ExecutionStatus

OUTPUT = "approved text"


def task(name: str, kind: str, value: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "type": "tool",
        "tool": f"unit.{kind}",
        "arguments": {"value": value},
        "permission_set": "filesystem" if kind == "effect" else "readonly",
        **more,
    }


def review(phase: str = "BEFORE", **more: Any) -> dict[str, Any]:
    return {"human_review": {"trigger_phase": f"{phase}_EXECUTION", **more}}


@dataclass(frozen=True)
class Gate:
    """A run that stops at one gate.

    `guarded` are the tasks behind it, `reason` and `quorum` those of its hold.
    """

    reason: HoldReason
    guarded: tuple[str, ...]
    gate: dict[str, Any]
    policy: dict[str, Any] = field(default_factory=dict)
    quorum: int = 1


FROM_CONTEXT = {"$from": "context", "select": "word"}
GATES = {
    "before": Gate(
        HoldReason.NODE_REVIEW,
        ("gate", "last"),
        task("gate", "effect", FROM_CONTEXT, **review(), depends_on=["first"]),
    ),
    "after": Gate(
        HoldReason.NODE_REVIEW,
        ("last",),
        task("gate", "value", OUTPUT, **review("AFTER"), depends_on=["first"]),
    ),
    "always": Gate(
        HoldReason.NODE_REVIEW,
        ("gate", "last"),
        task("gate", "effect", OUTPUT, **review(always=True), depends_on=["first"]),
    ),
    "quorum": Gate(
        HoldReason.NODE_REVIEW,
        ("gate", "last"),
        task("gate", "effect", OUTPUT, **review(quorum=2), depends_on=["first"]),
        quorum=2,
    ),
    "layer": Gate(
        HoldReason.LAYER_APPROVAL,
        ("gate", "last"),
        task("gate", "effect", FROM_CONTEXT, depends_on=["first"]),
        {"hil": {"enabled": True, "approval_required": "critical_only"}},
    ),
    "escalation": Gate(
        HoldReason.ESCALATION,
        ("gate",),
        task("gate", "ask", FROM_CONTEXT, depends_on=["first"]),
    ),
    "plan review": Gate(
        HoldReason.REPLAN_REVIEW,
        ("added",),
        task("gate", "value", OUTPUT, depends_on=["first"]),
        {"replan_review": True},
    ),
}


class Attacker:
    """A planner that gives back whatever change of the plan it was told to make."""

    def __init__(self) -> None:
        self.change: Callable[[Plan], Plan] = with_added

    def replan(self, *, plan: Plan, **facts: Any) -> NewPlan:
        try:
            return NewPlan(self.change(plan))
        except KeyError as missing:
            raise TaskFailed(f"no task {missing}") from None


class Calm:
    def ask(self, question: AgentQuestion, heartbeat: Heartbeat) -> AgentAnswer:
        return AgentAnswer("continue")


class World:
    """One run in memory, in front of one gate."""

    def __init__(self, gate: Gate, *, validates: bool) -> None:
        self.gate = gate
        self.journal = MemoryJournal()
        self.runner = ScriptedRunner(batch_size=9)
        self.planner = Attacker()
        self.ports = Ports(
            self.journal, self.runner, Calm(), self.planner, summarise=lambda run: ""
        )
        plan = {"tasks": [task("first", "value", 1), gate.gate, task("last", "value", SOURCE)]}
        policy = {**gate.policy, "per_layer_validation": validates}
        self.id = self.journal.create(
            parse_plan(plan), policy=Policy.model_validate(policy), inputs={}
        )
        self.submit(cmd.UpdateState(updates={"word": "as shown"}))

    @property
    def stored(self) -> Stored:
        return self.journal.executions[self.id]

    @property
    def holds(self) -> tuple[Hold, ...]:
        return self.stored.state.holds

    @property
    def plan(self) -> Plan:
        return self.stored.revisions[self.stored.state.revision].plan

    def submit(self, command: Any, actor: str = "mallory") -> None:
        submit(self.id, command, self.ports, actor=actor_named(actor), source="test")

    def work(self) -> None:
        while step(self.id, self.ports):
            pass

    def to_the_gate(self) -> None:
        """Up to where people are asked, through the agents' stops before it."""
        self.work()
        while self.holds and all(hold.decider == "agent" for hold in self.holds):
            self.submit(cmd.Continue())
            self.work()

    def open_plan_review(self) -> None:
        if self.gate.reason is HoldReason.REPLAN_REVIEW and self.stored.state.proposal is None:
            self.submit(cmd.Replan(new_requirement="more"))

    def called(self) -> dict[str, Any]:
        """The inputs of each task that ran to its end."""
        return {
            name: each.inputs
            for name, each in self.stored.finished.items()
            if each.inputs is not None
        }

    def approved(self) -> set[str]:
        """Ids of the holds that people approved."""
        events = self.stored.events
        decided = [each for each in events if each.kind == "hold_decided"]
        assert all(not each.by_timeout for each in decided)
        return {each.hold_id for each in decided if each.decision == "APPROVE"}


SOURCE = {"$from": "gate"}


# --- what a command tries -------------------------------------------------------------------------


def with_added(plan: Plan) -> Plan:
    extra = ToolTask.model_validate(task("added", "effect", "evil", depends_on=["first"]))
    return Plan(tasks=(*plan.tasks, extra))


def _changed(plan: Plan, name: str, **changes: Any) -> Plan:
    written = plan.by_id[name].model_dump(mode="json")
    becomes = ToolTask.model_validate({**written, **changes})
    return Plan(tasks=tuple(becomes if each.id == name else each for each in plan.tasks))


def without_review(plan: Plan) -> Plan:
    return _changed(plan, "gate", human_review=None)


def with_another_review(plan: Plan) -> Plan:
    loose = ReviewPolicy(groups=("friends",), on_timeout="approve", timeout_seconds=1)
    return _changed(plan, "gate", human_review=loose.model_dump(mode="json"))


def with_a_never(plan: Plan) -> Plan:
    return _changed(plan, "gate", when="inputs.never")


def without_the_gate(plan: Plan) -> Plan:
    rest = _changed(plan, "last", arguments={"value": "evil"})
    return Plan(tasks=tuple(each for each in rest.tasks if each.id != "gate"))


def around_the_gate(plan: Plan) -> Plan:
    return _changed(plan, "last", arguments={"value": "evil"}, depends_on=("first",))


def twin(name: str = "twin", **more: Any) -> cmd.InjectTask:
    """The reviewed effect once more, without its review."""
    data = task(name, "effect", "evil", depends_on=["first"], **more)
    return cmd.InjectTask(task=ToolTask.model_validate(data))


LOOSE = {
    "groups": ["friends"],
    "on_timeout": "approve",
    "timeout_seconds": 1,
    "skip_when": "`true`",
}
FORMS: dict[str, tuple[Any, Callable[[Plan], Plan] | None]] = {
    "continue": (cmd.Continue(), None),
    "replan adds": (cmd.Replan(new_requirement="x"), with_added),
    "replan drops the review": (cmd.Replan(new_requirement="x"), without_review),
    "replan loosens the review": (cmd.Replan(new_requirement="x"), with_another_review),
    "replan never runs the gate": (cmd.Replan(new_requirement="x"), with_a_never),
    "replan removes the gate": (cmd.Replan(new_requirement="x"), without_the_gate),
    "replan goes around the gate": (cmd.Replan(new_requirement="x"), around_the_gate),
    "inject a twin": (twin(), None),
    "inject a twin with a review of its own": (twin(human_review=LOOSE), None),
    "skip the next layer": (cmd.SkipLayer(), None),
    "skip the gate's layer": (cmd.SkipLayer(layer=1), None),
    "skip the last layer": (cmd.SkipLayer(layer=2), None),
    "modify what is behind": (cmd.ModifyArgs(task_id="last", arguments={"value": "evil"}), None),
    "modify the gate": (cmd.ModifyArgs(task_id="gate", arguments={"value": "evil"}), None),
    "update the context": (cmd.UpdateState(updates={"word": "evil"}), None),
    "answer a hold that is not open": (cmd.ApprovalResponse(hold="1-99", approved=True), None),
    "answer a checkpoint": (cmd.CheckpointResponse(hold="1-99", approved=True), None),
}
#: The task that asks for a permission, or for the approval of its layer, is gone or does not run.
GONE = {
    ("escalation", "replan never runs the gate"),
    ("escalation", "replan removes the gate"),
    ("escalation", "skip the next layer"),
    ("escalation", "skip the gate's layer"),
    ("layer", "replan never runs the gate"),
    ("layer", "replan removes the gate"),
}
MOMENTS = ("queued before the start", "ahead of the gate", "at the gate")


def give(world: World, form: str) -> str:
    """Send the command; "applied", "queued", or the code of the refusal."""
    command, change = FORMS[form]
    if change is not None:
        world.planner.change = change
    try:
        world.submit(command)
    except Busy:
        world.journal.queue(world.id, command, actor="mallory")
        return "queued"
    except Refused as refusal:
        return refusal.code if refusal.message else "refused without a reason"
    return "applied"


def at(gate: str, moment: str) -> World:
    world = World(GATES[gate], validates=moment == "ahead of the gate")
    if moment == "queued before the start":
        # A worker holds the lease, so that the command waits for the boundary.
        world.stored.lease_until = world.journal.now + 1
    elif moment == "ahead of the gate":
        world.work()
        assert world.holds[0].reason is HoldReason.LAYER_VALIDATION
    else:
        world.open_plan_review()
        world.to_the_gate()
        assert world.holds[0].reason is world.gate.reason
    return world


def nothing_passed(world: World) -> None:
    """Without a decision of people no guarded task ran, and the run is not over."""
    assert not world.approved() & {hold.id for hold in world.holds}
    assert not set(world.gate.guarded) & world.called().keys()
    assert not world.stored.state.status.is_final
    assert any(hold.decider == "human" for hold in world.holds)


def decide_all(world: World) -> None:
    """The people who may decide approve whatever comes; each hold by as many as it needs."""
    for _ in range(20):
        if world.stored.state.status.is_final:
            return
        world.to_the_gate()
        for hold in world.holds:
            for name in ("ann", "bob")[: hold.quorum]:
                world.submit(cmd.ApprovalResponse(hold=hold.id, approved=True), actor=name)
    raise AssertionError("the run does not end")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("gate", GATES)
def test_no_command_passes_a_gate(gate: str, form: str, moment: str) -> None:
    world = at(gate, moment)
    give(world, form)
    world.stored.lease_until = None
    world.planner.change = with_added
    world.open_plan_review()
    world.to_the_gate()
    if world.stored.state.status.is_final:
        # Only a gate that belongs to no review can be gone: what it stood before did not run.
        assert (gate, form) in GONE
        assert "gate" not in world.called()
        return
    nothing_passed(world)
    if world.gate.gate.get("human_review") or gate == "plan review":
        assert {each.reason for each in world.holds if each.decider == "human"} == {
            world.gate.reason
        }
    assert world.holds[0].quorum >= world.gate.quorum
    decide_all(world)
    assert world.stored.state.status is ExecutionStatus.COMPLETED
    ran_as_approved(world)


def ran_as_approved(world: World) -> None:
    """Every effect was reviewed with the inputs it ran with; approved output reached its reader."""
    opened = {
        each.task_id: each.opening["payload"]
        for each in world.stored.events
        if each.kind == "hold_opened" and each.phase == "BEFORE_EXECUTION"
    }
    reviewed = {each.id for each in world.plan.tasks if each.human_review}
    called = world.called()
    for name in reviewed & called.keys() & opened.keys():
        assert called[name] == opened[name], "ran with what was not shown"
    if world.gate.gate.get("human_review"):
        assert "gate" in reviewed
        assert "gate" in called
        if "twin" in called and world.gate.gate["tool"] == "unit.effect":
            assert "twin" in opened, "the same effect ran without its review"
    if world.gate is GATES["after"] and "last" in called:
        (shown,) = [
            each.opening["payload"]
            for each in world.stored.events
            if each.kind == "hold_opened" and each.task_id == "gate"
        ]
        assert called["last"] == {"value": shown}


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_abort_ends_the_run_and_runs_nothing(gate: str, moment: str) -> None:
    world = at(gate, moment)
    try:
        world.submit(cmd.Abort())
    except Busy:
        world.journal.queue(world.id, cmd.Abort(), actor="mallory")
    world.stored.lease_until = None
    world.work()
    assert world.stored.state.status is ExecutionStatus.ABORTED
    assert not set(world.gate.guarded) & world.called().keys()


@pytest.mark.parametrize("after", ["the gate is open", "an abort", "it was approved"])
@pytest.mark.parametrize("gate", [name for name in GATES if name != "plan review"])
def test_a_fork_meets_the_gate_again(gate: str, after: str) -> None:
    world = at(gate, "at the gate")
    if after == "an abort":
        world.submit(cmd.Abort())
    elif after == "it was approved":
        decide_all(world)
    world.id = world.journal.fork(world.id, world.stored.checkpoints[0])
    world.submit(cmd.UpdateState(updates={"word": "evil"}))
    world.to_the_gate()
    nothing_passed(world)
    assert world.holds[0].quorum == world.gate.quorum
    decide_all(world)
    ran_as_approved(world)


def test_a_fork_drops_a_pending_plan_change_and_reviews_the_next() -> None:
    world = at("plan review", "at the gate")
    world.submit(cmd.ApprovalResponse(hold=world.holds[0].id, approved=False), actor="ann")
    world.to_the_gate()
    world.id = world.journal.fork(world.id, world.stored.checkpoints[0])
    assert world.stored.state.proposal is None
    world.submit(cmd.Replan(new_requirement="more"))
    world.to_the_gate()
    nothing_passed(world)


@pytest.mark.parametrize("gate", GATES)
def test_no_gate_opens_by_time_unless_its_policy_says_so(gate: str) -> None:
    world = at(gate, "at the gate")
    (hold,) = world.holds
    expire = cmd.ExpireHold(hold=hold.id)
    if hold.on_timeout == "keep_waiting":
        with pytest.raises(Refused, match="has no end"):
            world.submit(expire, actor="system")
        nothing_passed(world)
        return
    world.submit(expire, actor="system")
    world.work()
    assert world.stored.state.status is ExecutionStatus.ABORTED
    assert not set(world.gate.guarded) & world.called().keys()


@pytest.mark.parametrize("moment", ["answered", "signed"])
def test_a_context_change_after_a_layer_approval_needs_a_new_approval(moment: str) -> None:
    """The layer reads the context, which the person who signed has seen as it was."""
    world = at("layer", "at the gate")
    approve = {"hold": world.holds[0].id, "approved": True}
    if moment == "answered":
        world.submit(cmd.ApprovalResponse(**approve, undo_seconds=60), actor="ann")
        world.submit(cmd.UpdateState(updates={"word": "evil"}))
        world.submit(cmd.SettleAnswer(hold=approve["hold"]), actor="ann")
    else:
        world.submit(cmd.ApprovalResponse(**approve), actor="ann")
        world.submit(cmd.UpdateState(updates={"word": "evil"}))
    world.to_the_gate()
    nothing_passed(world)


def test_a_permission_applies_only_to_the_inputs_it_was_requested_for() -> None:
    world = at("escalation", "at the gate")
    world.submit(cmd.UpdateState(updates={"word": "evil"}))
    decide_all(world)
    assert world.called()["gate"] == {"value": "as shown"}


def test_a_task_whose_reference_is_replaced_still_waits_for_the_review() -> None:
    """Rejected, the review takes it along, whatever its inputs have become."""
    gate = task("gate", "effect", 1, depends_on=["first"], **review(on_reject="skip"))
    world = World(Gate(HoldReason.NODE_REVIEW, ("gate", "last"), gate), validates=False)
    world.to_the_gate()
    world.submit(cmd.ModifyArgs(task_id="last", arguments={"value": "changed"}))
    assert world.plan.by_id["last"].needs == {"gate"}
    world.submit(cmd.ApprovalResponse(hold=world.holds[0].id, approved=False), actor="ann")
    world.work()
    assert "last" not in world.called()


def code(name: str, language: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "code_execution", "language": language, "code": "1", **more}


@pytest.mark.parametrize("language", ["python", "javascript", "typescript"])
def test_code_beside_reviewed_code_is_reviewed_in_every_language(language: str) -> None:
    gate = code("gate", "python", **review(), depends_on=["first"])
    world = World(Gate(HoldReason.NODE_REVIEW, ("gate", "last"), gate), validates=False)
    added = CodeTask.model_validate(code("twin", language, depends_on=["first"]))
    world.submit(cmd.InjectTask(task=added))
    assert world.plan.by_id["twin"].human_review == world.plan.by_id["gate"].human_review
    world.to_the_gate()
    assert {each.task_id for each in world.holds} == {"gate", "twin"}
    assert not {"gate", "twin"} & world.called().keys()


def capability(name: str, of: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "capability", "capability": of, "permission_set": "minimal", **more}


@pytest.mark.parametrize(
    ("gate", "added"),
    [
        (code("gate", "python"), capability("twin", "deploy")),
        (capability("gate", "deploy"), code("twin", "python")),
        (capability("gate", "deploy"), capability("twin", "deploy")),
        (capability("gate", "deploy"), capability("twin", "copy-of-deploy")),
    ],
)
def test_a_capability_counts_as_code(gate: dict[str, Any], added: Any) -> None:
    """Code is kept as a capability under any name, and written out again from one."""
    gate |= {**review(quorum=2), "depends_on": ["first"]}
    world = World(Gate(HoldReason.NODE_REVIEW, ("gate", "last"), gate, quorum=2), validates=False)
    (joining,) = parse_plan({"tasks": [added]}).tasks
    world.submit(cmd.InjectTask(task=joining))
    assert world.plan.by_id["twin"].human_review == world.plan.by_id["gate"].human_review


def test_a_tool_of_a_capabilitys_name_is_another_kind() -> None:
    gate = {**capability("gate", "unit.effect"), **review(), "depends_on": ["first"]}
    world = World(Gate(HoldReason.NODE_REVIEW, ("gate", "last"), gate), validates=False)
    world.submit(twin())
    assert world.plan.by_id["twin"].human_review is None


@pytest.mark.parametrize(
    ("gate", "added"),
    [
        (code("gate", "python"), capability("twin", "deploy")),
        (task("gate", "effect", 1), task("twin", "effect", 2)),
    ],
    ids=["capability", "tool"],
)
def test_a_task_that_is_always_reviewed_stays_so(
    gate: dict[str, Any], added: dict[str, Any]
) -> None:
    """A capability in ask mode and a destructive tool are reviewed at each use."""
    loose = review("AFTER", quorum=2, skip_when="output")
    gate = {**gate, **loose, "depends_on": ["first"]}
    world = World(Gate(HoldReason.NODE_REVIEW, ("gate", "last"), gate, quorum=2), validates=False)
    for on_timeout, phase in (("keep_waiting", "BEFORE"), ("approve", "AFTER")):
        own = review(always=True, on_timeout=on_timeout)
        (joining,) = parse_plan({"tasks": [{**added, **own}]}).tasks
        (joined,) = with_reviews(world.plan, [joining])
        kept = joined.human_review
        assert kept is not None
        assert (kept.always, kept.quorum, kept.trigger_phase) == (True, 2, f"{phase}_EXECUTION")
        assert not kept.can_skip
        assert kept.on_timeout != "approve"


def test_a_tasks_own_review_loosens_nothing() -> None:
    """The author of a plan change writes the new task's review."""
    strict = review("BEFORE", groups=["board"], on_reject="fail")
    gate = {**task("gate", "effect", 1), **strict, "depends_on": ["first"]}
    world = World(Gate(HoldReason.NODE_REVIEW, ("gate", "last"), gate, quorum=1), validates=False)
    own = review("AFTER", always=True, on_timeout="keep_waiting")
    (joining,) = parse_plan({"tasks": [{**task("twin", "effect", 2), **own}]}).tasks
    (joined,) = with_reviews(world.plan, [joining])
    kept = joined.human_review
    assert kept is not None
    assert (kept.always, kept.trigger_phase) == (True, "BEFORE_EXECUTION")
    assert (kept.groups, kept.on_reject) == (("board",), "fail")


def test_a_tool_beside_reviewed_code_is_another_kind() -> None:
    gate = code("gate", "python", **review(), depends_on=["first"])
    world = World(Gate(HoldReason.NODE_REVIEW, ("gate", "last"), gate), validates=False)
    world.submit(twin())
    assert world.plan.by_id["twin"].human_review is None


def test_code_with_a_review_of_its_own_keeps_it_when_its_inputs_change() -> None:
    gate = code("gate", "python", **review(quorum=2), depends_on=["first"])
    world = World(Gate(HoldReason.NODE_REVIEW, ("gate", "last"), gate), validates=False)
    own = CodeTask.model_validate(code("own", "javascript", **review(), depends_on=["first"]))
    plan = Plan(tasks=(*world.plan.tasks, own))
    changed = own.model_copy(update={"inputs": {"value": 1}})
    assert with_reviews(plan, [changed]) == (changed,)


REFUSALS = {
    "skip the gate's layer": ("before", "after", "always", "quorum", "layer"),
    "replan drops the review": ("before", "after", "always", "quorum"),
    "replan loosens the review": ("before", "after", "always", "quorum"),
    "replan never runs the gate": ("before", "after", "always", "quorum"),
    "replan removes the gate": ("before", "after", "always", "quorum"),
    "replan goes around the gate": ("before", "after", "always", "quorum"),
    "modify what is behind": ("after",),
}


@pytest.mark.parametrize(
    ("form", "gate"), [(form, gate) for form, gates in REFUSALS.items() for gate in gates]
)
def test_a_change_that_would_lose_a_review_is_refused_with_the_reason(form: str, gate: str) -> None:
    world = at(gate, "ahead of the gate")
    assert give(world, form) == "gated"
