"""Random plans, ends and orders of decisions: the engine always comes to the right end."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.stateful.oracle import ESCALATION, Interventions, Outcome, Verdict, expected, status_fits
from tests.stateful.planner import AddsATask
from tests.stateful.plans import INPUTS, plans, policies, tasks
from tests.stateful.scripted import PowerCut, ScriptedRunner
from tests.support.actors import actor_named
from tests.support.memory_journal import LEASE_SECONDS, MemoryJournal, Stored
from tests.support.repetitions import often
from workflows.engine.plans.validation import parse_plan
from workflows.engine.policy.policies import Policy
from workflows.engine.protocol import commands as cmd
from workflows.engine.protocol import events as ev
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.loop import step, submit
from workflows.engine.protocol.ports import AgentAnswer, AgentQuestion, Busy, Heartbeat, Ports
from workflows.engine.protocol.state import Hold, HoldReason, SkipReason
from workflows.engine.protocol.status import ExecutionStatus

#: More steps than any of these runs can need: whoever needs more is going round in circles.
MANY = 400
KINDS = ("value", "value", "flaky", "late", "fail", "ask")


class CalmAgent:
    """Always goes on."""

    def ask(self, question: AgentQuestion, heartbeat: Heartbeat) -> AgentAnswer:
        return AgentAnswer("continue", "fine")


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
        self.interventions = Interventions(inputs=INPUTS)
        self.ports = Ports(
            self.journal, self.runner, CalmAgent(), AddsATask(), summarise=lambda run: "summary"
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
        submit(self.id, command, self.ports, actor=actor_named(actor), source="test")

    def decide(self, hold: Hold, *, approved: bool, edits: Any = None, actor: str = "ann") -> None:
        """Answer a hold, and remember the answer if it completes the decision."""
        complete = not approved or len(hold.approvals) + 1 >= hold.quorum
        given = {} if edits is None else {"edits": edits}
        self.submit(cmd.ApprovalResponse(hold=hold.id, approved=approved, **given), actor=actor)
        if complete:
            self.remember(hold, Verdict(approved, edits, edits is not None))

    def expire(self, hold: Hold) -> None:
        """Move the clock to the hold's deadline and let time decide."""
        self.journal.now = max(self.journal.now, self.stored.deadlines[hold.id])
        self.submit(cmd.ExpireHold(hold=hold.id), actor="system")
        self.remember(hold, Verdict(hold.on_timeout in ("approve", "continue")))

    def remember(self, hold: Hold, verdict: Verdict) -> None:
        if hold.task_id:
            phase = hold.phase.value if hold.phase else ESCALATION
            self.interventions.verdicts[hold.task_id, phase] = verdict

    def edits(self, hold: Hold) -> Any:
        """A reviewer's edit for this hold, if it takes one."""
        if hold.reason is not HoldReason.NODE_REVIEW or hold.quorum > 1:
            return None
        changed = f"edited {hold.id}"
        return {"value": changed} if hold.phase == "BEFORE_EXECUTION" else changed


def note_skipped_reviews(world: World) -> None:
    """Tell the oracle which reviews a rule approved; the plan has to say that the rule may."""
    for event in world.stored.events:
        if event.kind != "review_spared":
            continue
        review = (
            world.stored.revisions[world.stored.state.revision]
            .plan.by_id[event.task_id]
            .human_review
        )
        assert review is not None
        assert review.skip_when == "`true`", "no rule says that this review may be skipped"
        assert (event.task_id, event.phase.value) not in world.interventions.verdicts
        world.interventions.verdicts[event.task_id, event.phase.value] = Verdict(approved=True)


def check_end(world: World) -> None:
    """Every finished task ended as the oracle says, once, and so did the execution."""
    stored = world.stored
    assert stored.state.version == len(stored.events)
    note_skipped_reviews(world)
    settled = {
        name: Outcome(each.status.value, each.skip.value if each.skip else "", each.output)
        for name, each in stored.finished.items()
    }
    world.interventions.aborted = world.status is ExecutionStatus.ABORTED
    ends = expected(stored.revisions[stored.state.revision].plan, world.interventions)
    for name, end in settled.items():
        assert ends[name].status == end.status, name
        assert ends[name].skip == end.skip, name
        if end.status == "SUCCEEDED":
            assert ends[name].output == end.output, name
    succeeded = [each.task_id for each in stored.events if each.kind == "task_succeeded"]
    assert len(succeeded) == len(set(succeeded))
    if world.status is ExecutionStatus.ABORTED:
        return
    plans_so_far = [each.plan for each in stored.revisions.values()]
    assert settled.keys() == plans_so_far[-1].by_id.keys()
    assert status_fits(world.status.value, plans_so_far, ends)


def check_no_hold_was_passed(world: World) -> None:
    """Events of a task with a BEFORE review follow the approval; so do readers of an AFTER one."""
    approved = set()
    for event in world.stored.events:
        if event.kind == "hold_decided" and event.decision == "APPROVE":
            approved.add((event.task_id, event.phase))
        if event.kind == "review_spared":
            approved.add((event.task_id, event.phase))
        if event.kind == "task_succeeded":
            task = world.stored.revisions[world.stored.state.revision].plan.by_id[event.task_id]
            review = task.human_review
            if review and review.trigger_phase == "BEFORE_EXECUTION":
                assert (task.id, "BEFORE_EXECUTION") in approved


def check_keys(runner: ScriptedRunner) -> None:
    """One key per attempt, the same for each of its repetitions."""
    keys = {(call.task.id, call.attempt): call.key for call in runner.calls}
    assert len(set(keys.values())) == len(keys)
    assert all(keys[call.task.id, call.attempt] == call.key for call in runner.calls)


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


@settings(max_examples=often(120, 20_000), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    plan=plans(server="unit", kinds=KINDS, max_size=8),
    policy=policies(),
    batch_size=st.integers(1, 3),
    slice_moves=st.integers(1, 40),
    data=st.data(),
)
def test_every_run_ends_correctly(
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
    check_keys(runner)


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
            return cmd.load_command({"kind": "inject_task", "task": raw})
        case "continue":
            return cmd.Continue()
        case "replan":
            return cmd.Replan(new_requirement=f"more{number}")
    return cmd.UpdateState(updates={f"k{number}": number})


def give(world: World, command: Any) -> None:
    """A command from any door: at once at rest, else queued; a refusal is an answer too."""
    try:
        world.submit(command)
    except Busy:
        world.journal.queue(world.id, command, actor="ann")
    except Refused:
        pass


@dataclass
class Accepted:
    """What the events of a run say that its commands changed."""

    skipped: set[str] = field(default_factory=set)
    values: dict[str, str] = field(default_factory=dict)
    added: dict[str, Any] = field(default_factory=dict)
    context: dict[str, Any] = field(default_factory=dict)


def accepted_by(world: World) -> Accepted:
    """Read the accepted commands from the events, each against the plan of its time."""
    accepted, layers = Accepted(), world.stored.revisions[1].layers
    for event in world.stored.events:
        match event:
            case ev.LayerSkipRequested():
                accepted.skipped |= set(layers[event.layer])
            case ev.ContextUpdated():
                accepted.context |= event.updates
            case ev.PlanRevised():
                layers = event.layers
                accepted.added |= {name: event.plan.by_id[name] for name in event.added}
                if event.cause == "modify_args":
                    (name,) = event.changed
                    accepted.values[name] = event.plan.by_id[name].values["value"]
    return accepted


def check_what_was_accepted(world: World) -> None:
    """Whatever came later: skipped layers were skipped, and inputs, tasks and context stayed."""
    accepted, stored = accepted_by(world), world.stored
    world.interventions.passed_over |= accepted.skipped
    plan = stored.revisions[stored.state.revision].plan
    for name in accepted.skipped & stored.finished.keys():
        assert stored.finished[name].skip is SkipReason.COMMAND, f"{name} ran although skipped"
    for name, value in accepted.values.items():
        assert plan.by_id[name].values["value"] == value, f"the inputs of {name} were lost"
    for name, task in accepted.added.items():
        assert plan.by_id[name].target == task.target, f"the added task {name} was lost"
    assert accepted.context.items() <= stored.context.items()


@settings(max_examples=often(80, 20_000), deadline=None, suppress_health_check=list(HealthCheck))
@given(plan=plans(server="unit", kinds=KINDS, max_size=6), policy=policies(), data=st.data())
def test_commands_at_any_moment_leave_a_correct_run(
    plan: dict[str, Any], policy: dict[str, Any], data: st.DataObject
) -> None:
    world = World(plan, policy, ScriptedRunner(), slice_moves=40)
    numbers = itertools.count()
    left = data.draw(st.integers(0, 8), label="commands")

    def meddle() -> bool:
        """Called in the middle of a layer: a command, or the power goes."""
        nonlocal left
        if left and data.draw(st.booleans()):
            left -= 1
            give(world, a_command(world, next(numbers), data))
        return bool(left) and data.draw(st.integers(0, 9)) == 0

    world.runner.cut = meddle
    for _ in range(MANY):
        if world.status.is_final:
            break
        world.work()
        world.wait()
        if left and data.draw(st.booleans()):
            left -= 1
            give(world, a_command(world, next(numbers), data))
        elif world.stored.state.holds and not world.stored.is_held(world.journal.now):
            decide_somehow(world, data)
    assert world.status.is_final
    assert world.stored.queued == []
    check_what_was_accepted(world)
    check_end(world)
    check_no_hold_was_passed(world)
    check_keys(world.runner)


CHANGES = ("skip_layer", "modify_args", "inject_task", "replan", "update_state")


@st.composite
def changes(draw: st.DrawFn) -> list[tuple[str, int]]:
    """Up to eight commands that change what a run does next, each with a number to choose by."""
    return draw(st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 5)), max_size=8))


def the_command(world: World, kind: str, choice: int, number: int) -> Any:
    """A command of this kind about a later layer or task of the run, if it has one."""
    state = world.stored.state
    revision = world.stored.revisions[state.revision]
    later = revision.layers[state.layer + 1 :] or revision.layers
    names = [name for layer in later for name in layer]
    name = names[choice % len(names)]
    if kind == "skip_layer":
        return cmd.SkipLayer(layer=len(revision.layers) - len(later) + choice % len(later))
    if kind == "modify_args":
        return cmd.ModifyArgs(task_id=name, arguments={"value": f"changed {number}"})
    if kind == "inject_task":
        task = _task(f"n{number}", "value", depends_on=[name])
        return cmd.load_command({"kind": kind, "task": task})
    if kind == "replan":
        return cmd.Replan(new_requirement=f"more{number}")
    return cmd.UpdateState(updates={f"k{choice}": number})


@pytest.mark.parametrize("at_rest", [True, False], ids=["at rest", "while a layer runs"])
@settings(max_examples=often(150, 20_000), deadline=None, suppress_health_check=list(HealthCheck))
@given(wanted=changes(), reviewed=st.booleans(), proposes=st.booleans())
def test_an_accepted_command_holds_whatever_comes_after(
    wanted: list[tuple[str, int]], reviewed: bool, proposes: bool, at_rest: bool
) -> None:
    """Four layers, and the commands come between the layers or while their tasks run."""
    after = [[], ["t0"], ["t1"], ["t2"]]
    tasks = [_task(f"t{number}", "value", depends_on=needs) for number, needs in enumerate(after)]
    if reviewed:
        tasks[0]["human_review"] = {"trigger_phase": "BEFORE_EXECUTION"}
    policy = {"per_layer_validation": True, "replan_review": proposes}
    world = World({"tasks": tasks}, policy, ScriptedRunner())
    commands = iter([(*each, number) for number, each in enumerate(wanted)])

    def send_some() -> bool:
        for kind, choice, number in itertools.islice(commands, 3):
            give(world, the_command(world, kind, choice, number))
        return False

    if not at_rest:
        world.runner.cut = send_some
    for _ in range(MANY):
        if world.status.is_final:
            break
        world.work()
        if at_rest:
            send_some()
        for hold in world.stored.state.holds:
            world.decide(hold, approved=True)
    assert world.status is ExecutionStatus.COMPLETED
    check_what_was_accepted(world)
    check_end(world)


def test_no_command_is_lost_between_two_steps() -> None:
    """Two queued commands that change the status twice, and the power goes after the first."""
    plan = {"tasks": [_task("a", "value"), _task("b", "value", depends_on=["a"])]}
    for dies_at in range(1, 7):
        world = World(plan, {"per_layer_validation": True}, ScriptedRunner())
        steps = itertools.count(1)
        _commands_before_the_hold_opens(world)
        _die_after_step(world, steps, dies_at)
        for _ in range(4):
            world.work()
        assert world.status is ExecutionStatus.ABORTED, dies_at
        kinds = [each.kind for each in world.stored.events]
        assert kinds.count("hold_decided") == 1


def _commands_before_the_hold_opens(world: World) -> None:
    """`continue` and `abort` come in while the layer's last step is on its way."""
    claimed = world.journal.before_step

    def before_step(execution_id: str) -> None:
        claimed(execution_id)
        opened = [each for each in world.stored.events if each.kind == "task_succeeded"]
        if opened or not world.runner.calls or world.stored.queued:
            return
        world.journal.queue(world.id, cmd.Continue(), actor="ann")
        world.journal.queue(world.id, cmd.Abort(reason="enough"), actor="bob")

    world.journal.before_step = before_step


def _die_after_step(world: World, steps: itertools.count[int], dies_at: int) -> None:
    def after_step(execution_id: str) -> None:
        if next(steps) == dies_at:
            raise PowerCut

    world.journal.after_step = after_step


def test_an_attempt_keeps_its_key_when_the_plan_changes_before_its_retry() -> None:
    cuts = iter([True])
    runner = ScriptedRunner(cut=lambda: next(cuts, False))
    world = World({"tasks": [_task("a", "value")]}, {}, runner)
    world.work()
    world.submit(cmd.load_command({"kind": "inject_task", "task": _task("b", "value")}))
    world.work()
    assert [call.task.id for call in runner.calls] == ["a", "a", "b"]
    assert runner.calls[0].key == runner.calls[1].key
    assert world.status is ExecutionStatus.COMPLETED


@pytest.mark.parametrize("changed", ["inject_task", "modify_args"])
def test_a_layer_changed_after_its_approval_is_approved_again(changed: str) -> None:
    plan = {"tasks": [_task("a", "value"), _task("b", "value", depends_on=["a"])]}
    world = World(plan, {"hil": {"enabled": True}}, ScriptedRunner())
    for _ in range(2):
        world.work()
        world.decide(world.stored.state.holds[0], approved=True)
    more = {
        "inject_task": {"task": _task("c", "value", depends_on=["a"])},
        "modify_args": {"task_id": "b", "arguments": {"value": "other"}},
    }
    world.submit(cmd.load_command({"kind": changed, **more[changed]}))
    world.work()
    assert [hold.reason for hold in world.stored.state.holds] == [HoldReason.LAYER_APPROVAL]
    assert [call.task.id for call in world.runner.calls] == ["a"]


@pytest.mark.parametrize(
    ("when", "holds", "ran"),
    [("a == `0`", 0, ["a"]), ("a == 'a'", 1, ["a"]), ("join(`1`, a)", 1, ["a"])],
)
def test_a_layer_that_runs_nothing_is_not_approved(when: str, holds: int, ran: list[str]) -> None:
    """A condition that cannot be evaluated is no reason to go past the person."""
    conditional = _task("b", "value", depends_on=["a"], when=when)
    plan = {"tasks": [_task("a", "value"), conditional, _task("c", "value", depends_on=["b"])]}
    world = World(plan, {"hil": {"enabled": True}}, ScriptedRunner())
    world.work()
    world.decide(world.stored.state.holds[0], approved=True)
    world.work()
    assert len(world.stored.state.holds) == holds
    assert [call.task.id for call in world.runner.calls] == ran
    if not holds:
        assert world.status is ExecutionStatus.COMPLETED
        assert {world.stored.finished[name].skip for name in "bc"} == {
            "condition",
            "upstream_skipped",
        }


def test_a_condition_sees_only_dependencies() -> None:
    reads = _task("reads", "value", depends_on=["a"])
    behind = _task("behind", "value", depends_on=["b"], when="a")
    world = World(
        {"tasks": [_task("a", "value"), _task("b", "value"), reads, behind]}, {}, ScriptedRunner()
    )
    world.work()
    assert world.stored.finished["behind"].skip == "condition"


def test_an_approval_of_a_changed_layer_is_requested_again() -> None:
    """The signer was shown one task; the one that came in behind their back needs its own."""
    world = World({"tasks": [_task("a", "value")]}, {"hil": {"enabled": True}}, ScriptedRunner())
    world.work()
    world.submit(cmd.load_command({"kind": "inject_task", "task": _task("b", "value")}))
    world.decide(world.stored.state.holds[0], approved=True)
    world.work()
    assert world.runner.calls == []
    world.decide(world.stored.state.holds[0], approved=True)
    world.work()
    assert world.status is ExecutionStatus.COMPLETED
    shown = [each.opening for each in world.stored.events if each.kind == "hold_opened"]
    layers = [[task["id"] for task in each["payload"]["next_layer"]] for each in shown]
    assert layers == [["a"], ["a", "b"]]


def _task(name: str, kind: str, **more: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {"value": name}
    if kind == "flaky":
        arguments["failures"] = 0
    return {"id": name, "type": "tool", "tool": f"unit.{kind}", "arguments": arguments, **more}


def _review(phase: str, on_reject: str) -> dict[str, Any]:
    return {"human_review": {"trigger_phase": f"{phase}_EXECUTION", "on_reject": on_reject}}


def layer_of_eight(on_reject: str) -> dict[str, Any]:
    """Two succeed, two escalate, one fails, a BEFORE and an AFTER review, one is out of time."""
    layer = [
        _task("good1", "value"),
        _task("good2", "value"),
        _task("ask1", "ask"),
        _task("ask2", "ask"),
        _task("bad", "fail"),
        _task("before", "value", **_review("BEFORE", on_reject)),
        _task("after", "value", **_review("AFTER", on_reject)),
        _task("slow", "late", retry={"max_attempts": 2, "backoff_seconds": 5}),
    ]
    behind = [_task(f"behind_{each['id']}", "value", depends_on=[each["id"]]) for each in layer]
    return {"tasks": layer + behind}


@pytest.mark.parametrize("on_reject", ["fail", "skip", "abort"])
def test_a_layer_of_eight_ends_correctly_in_every_order_of_decisions(on_reject: str) -> None:
    plan = layer_of_eight(on_reject)
    for order in itertools.permutations(range(4)):
        for answers in itertools.product([True, False], repeat=4):
            world = World(plan, {}, ScriptedRunner(batch_size=8))
            for _ in range(3):
                world.work()
                world.wait()
            assert len(world.stored.state.holds) == 4
            _decide_in(world, order, answers)
            check_end(world)
            _check_layer_of_eight(world, answers, on_reject)


def _decide_in(world: World, order: tuple[int, ...], answers: tuple[bool, ...]) -> None:
    holds = world.stored.state.holds
    for position in order:
        if not world.status.is_final:
            world.decide(holds[position], approved=answers[position])
        world.work()
    for _ in range(2):
        world.wait()
        world.work()
    assert world.status.is_final


def _check_layer_of_eight(world: World, answers: tuple[bool, ...], on_reject: str) -> None:
    rejected = not (answers[2] and answers[3])
    if rejected and on_reject == "abort":
        assert world.status is ExecutionStatus.ABORTED
        return
    # What fails takes its own branch along and no other: those behind the good ones are done.
    assert world.status is ExecutionStatus.FAILED
    for name in ("good1", "good2"):
        assert world.stored.finished[f"behind_{name}"].status == "SUCCEEDED"
    for name, granted in zip(("ask1", "ask2"), answers, strict=False):
        wanted = "SUCCEEDED" if granted else "SKIPPED"
        assert world.stored.finished[f"behind_{name}"].status == wanted
    tries = [call.task.id for call in world.runner.calls]
    assert tries.count("slow") == 2
    assert tries.count("good1") == tries.count("bad") == 1
