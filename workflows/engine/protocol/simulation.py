"""Simulates a run to find where it would stop for a decision.

The real loop runs over a journal in memory.  Each task ends at once with the output that the
example gives for it, and each decision is an approval.  So the engine itself decides which holds
open and which reviews are skipped; this module only records its events.

A task without an output in the example has an unknown output.  A condition that reads an unknown
value is assumed to hold, and a review rule that reads one is reported as undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from workflows.engine.plans.dag import ExternalActionTask, Plan, Revision, ToolTask, is_reference
from workflows.engine.plans.task_errors import TaskFailed
from workflows.engine.policy.policies import Policy, TriggerPhase
from workflows.engine.values.expression_paths import read_paths
from workflows.engine.values.expressions import ExpressionError
from workflows.engine.values.reasons import Reason, load_reason

from . import commands as cmd
from . import events as ev
from .actors import Actor
from .evolve import evolve
from .loop import step, submit
from .moves import Gate
from .ports import (
    AgentAnswer,
    AgentQuestion,
    FinishedTask,
    Heartbeat,
    NewPlan,
    Ports,
    QueuedCommand,
    Run,
    Success,
    TaskCall,
    TaskResult,
)
from .review_rules import Verdict, evaluate_gate, rules_for
from .state import ExecutionState, HoldReason, SkipReason
from .status import TaskStatus
from .task_inputs import Spec

#: Stands for an unknown value in the inputs of a task.
UNKNOWN: Final = "(unknown)"
#: Moves per task and in addition; more means that the run would not end.
_MOVES_PER_TASK, _MOVES = 10, 100
_RUN_ID = "simulation"

Outcome = Literal["stops", "skipped", "sampled", "depends", "asks"]


@dataclass(frozen=True, slots=True)
class Example:
    """Data of a run: its inputs, and the outputs of tasks by id.

    `hidden` are names of inputs with an unknown value.
    """

    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Point:
    """A place where a run stops, may stop, or goes on because of a rule.

    Outcome: `stops`; `skipped` by a rule; `sampled`: a share of these reviews is skipped; `depends`
    on values of `unknown`; `asks`: a registered agent decides at once.  `layer` counts from 0.
    `rule` and `rules_version` name the review rule that decided, as in `Verdict`.
    `assumed` are the unknown values that decide whether the run reaches the point at all.
    """

    outcome: Outcome
    reason: HoldReason
    layer: int
    task_id: str = ""
    phase: TriggerPhase | None = None
    decider: Literal["human", "agent"] = "human"
    agent: str = ""
    groups: tuple[str, ...] = ()
    quorum: int = 1
    timeout_seconds: float | None = None
    on_timeout: str = "keep_waiting"
    on_reject: str = ""
    reminders: tuple[float, ...] = ()
    escalation: tuple[Mapping[str, Any], ...] = ()
    why: Reason | None = None
    rule: str = ""
    rules_version: int = 0
    sample: float | None = None
    unknown: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Simulation:
    """The points of a run in order, and tasks that are skipped or fail before they run."""

    points: tuple[Point, ...]
    skipped: Mapping[str, SkipReason]
    failed: Mapping[str, Reason | str]
    is_complete: bool


class _Stopped(Exception):
    """The simulation has taken too long."""


def never() -> bool:
    return False


def simulate(
    plan: Plan, policy: Policy, example: Example, *, is_late: Callable[[], bool] = never
) -> Simulation:
    """Return where a run of `plan` would stop with the data of `example`.

    `plan` has the permission sets and reviews that a run starts with; `policy` has its review
    rules.  The simulation ends early once `is_late` returns True: its expressions can take long.
    """
    known = _Known(plan, example)
    run = _SimulatedRun(known, policy, example, is_late)
    ports = Ports(
        journal=run,
        runner=_ExampleRunner(example),
        agents=_AgreeingAgent(run),
        planner=_NoPlanner(),
        summarise=lambda run: "",
    )
    with suppress(_Stopped):
        while not run.state.status.is_final and not run.slice_over():
            step(_RUN_ID, ports)
            for hold in run.state.holds:
                _approve(run, hold.id, ports)
    return Simulation(
        points=tuple(run.points),
        skipped=dict(run.skipped),
        failed=dict(run.failed),
        is_complete=run.state.status.is_final,
    )


def _approve(run: _SimulatedRun, hold_id: str, ports: Ports) -> None:
    """Approve a hold, as often as its quorum needs."""
    while (hold := run.state.hold(hold_id)) is not None:
        by_agent = hold.decider == "agent"
        command: object = (
            cmd.Continue() if by_agent else cmd.ApprovalResponse(hold=hold_id, approved=True)
        )
        number = len(hold.approvals) + 1
        actor = Actor(f"person {number}", id=number)
        submit(_RUN_ID, command, ports, actor=actor, source="simulation")


# --- unknown values -------------------------------------------------------------------------------


class _Known:
    """The plan with unknown values replaced, and what is unknown in it.

    `arguments`: task id → argument → the unknown values that it is built from.  `assumed`: task id
    → the unknown values that its condition, or that of a task before it, reads.
    """

    def __init__(self, plan: Plan, example: Example) -> None:
        self._example = example
        self.outputs = frozenset(plan.by_id) - frozenset(example.outputs)
        self.arguments: dict[str, dict[str, frozenset[str]]] = {}
        self.assumed: dict[str, frozenset[str]] = {}
        own = {task.id: self._of_condition(task) for task in plan.tasks}
        self.plan = Plan.model_validate(
            {"tasks": [self._replaced(task, own[task.id]) for task in plan.tasks]}
        )
        for layer in plan.layers():
            for name in layer:
                before = (self.assumed[need] for need in plan.by_id[name].needs)
                self.assumed[name] = own[name].union(*before)

    def _of_condition(self, task: Spec) -> frozenset[str]:
        return self._of_expression(task.when, task.needs) if task.when else frozenset()

    def _of_expression(self, expression: str, tasks: Collection[str]) -> frozenset[str]:
        """Return the unknown outputs of `tasks` and inputs that an expression reads."""
        found: set[str] = set()
        try:
            paths = read_paths(expression)
        except ExpressionError:
            return frozenset()
        for path in paths:
            if not path:
                found |= self.outputs.intersection(tasks) | self._of_inputs(None)
            elif path[0] == "inputs":
                found |= self._of_inputs(path[1] if len(path) > 1 else None)
            elif path[0] in self.outputs and path[0] in tasks:
                found.add(path[0])
        return frozenset(found)

    def _of_inputs(self, name: str | None) -> frozenset[str]:
        """Return the unknown inputs among all of them, or the one of this name if it is unknown."""
        if name is None:
            return frozenset(f"inputs.{each}" for each in self._example.hidden)
        is_known = name in self._example.inputs and name not in self._example.hidden
        return frozenset() if is_known else frozenset({f"inputs.{name}"})

    def _replaced(self, task: Spec, condition: frozenset[str]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        self.arguments[task.id] = {}
        if isinstance(task, ExternalActionTask):
            return task.model_dump(mode="json", by_alias=True)
        for name, value in task.values.items():
            values[name], unknown = self._value(value)
            if unknown:
                self.arguments[task.id][name] = unknown
        data = task.model_dump(mode="json", by_alias=True)
        data["arguments" if isinstance(task, ToolTask) else "inputs"] = values
        data["depends_on"] = sorted(task.needs)
        return {**data, "when": None} if condition else data

    def _value(self, value: Any) -> tuple[Any, frozenset[str]]:
        """Return a value with its unknown references replaced, and their names."""
        if is_reference(value):
            unknown = self._of_reference(value)
            return (UNKNOWN, unknown) if unknown else (value, unknown)
        if isinstance(value, dict):
            parts = {key: self._value(item) for key, item in value.items()}
            return {key: part for key, (part, _) in parts.items()}, _union(parts.values())
        if isinstance(value, list | tuple):
            items = [self._value(item) for item in value]
            return [item for item, _ in items], _union(items)
        return value, frozenset()

    def _of_reference(self, reference: Mapping[str, Any]) -> frozenset[str]:
        source, select = reference["$from"], reference.get("select")
        if source in self.outputs:
            return frozenset({source})
        if source != "inputs":
            return frozenset()
        if select is None:
            return self._of_inputs(None)
        try:
            paths = read_paths(select)
        except ExpressionError:
            return frozenset()
        return frozenset().union(*(self._of_inputs(path[0] if path else None) for path in paths))

    def of_rules(self, run: Run, gate: Gate, verdict: Verdict) -> frozenset[str]:
        """Return the unknown values that decide whether a rule skips the review of a gate."""
        if verdict.code in ("always", "sent_back", "high_risk"):
            return frozenset()
        task = run.revision.plan.by_id[gate.task_id or ""]
        phase = gate.phase or TriggerPhase.BEFORE_EXECUTION
        found: set[str] = set()
        for name, version, rule in rules_for(task, phase, run.policy.review_rules):
            if rule.skip_when is not None:
                found |= self._of_rule(task.id, phase, rule.skip_when)
            if verdict.code != "no_rule" and (name, version) == (verdict.rule, verdict.version):
                break
        return frozenset(found)

    def _of_rule(self, task_id: str, phase: TriggerPhase, condition: str) -> frozenset[str]:
        arguments = self.arguments[task_id]
        whole = frozenset().union(*arguments.values())
        output = (
            self.outputs & {task_id} if phase is TriggerPhase.AFTER_EXECUTION else frozenset[str]()
        )
        found: set[str] = set()
        for path in read_paths(condition):
            match path:
                case ():
                    found |= whole | output
                case ("inputs",):
                    found |= whole
                case ("inputs", name):
                    found |= arguments.get(name, frozenset())
                case ("output", *_):
                    found |= output
        return frozenset(found)


def _union(parts: Iterable[tuple[Any, frozenset[str]]]) -> frozenset[str]:
    return frozenset[str]().union(*(unknown for _, unknown in parts))


# --- the run in memory ----------------------------------------------------------------------------


class _SimulatedRun:
    """`ports.Run` and `ports.Journal` of one run that nothing stores."""

    execution_id = _RUN_ID
    queued = 0

    def __init__(
        self, known: _Known, policy: Policy, example: Example, is_late: Callable[[], bool]
    ) -> None:
        self.state = ExecutionState()
        self.revision = Revision.first(known.plan)
        self.policy = policy
        self.inputs: Mapping[str, Any] = example.inputs
        self.context: Mapping[str, Any] = {}
        self.points: list[Point] = []
        self.skipped: dict[str, SkipReason] = {}
        self.failed: dict[str, Reason | str] = {}
        self._known, self._is_late = known, is_late
        self._finished: dict[str, FinishedTask] = {}
        self._moves_left = _MOVES_PER_TASK * len(known.plan.tasks) + _MOVES

    def record(self, *events: ev.Event) -> None:
        for event in events:
            self._note(event)
            self.state = evolve(self.state, event)

    def _note(self, event: ev.Event) -> None:
        match event:
            case ev.LayerStarted():
                self.skipped |= event.skips
                self._finished |= {
                    name: FinishedTask(TaskStatus.SKIPPED, skip=why)
                    for name, why in event.skips.items()
                }
            case ev.TaskSucceeded():
                self._finished[event.task_id] = FinishedTask(
                    TaskStatus.SUCCEEDED, event.output, inputs=event.inputs
                )
            case ev.TaskErrored():
                why = load_reason(event.error_code, event.error_params)
                self.failed[event.task_id] = event.error if why is None else why
                self._finished[event.task_id] = FinishedTask(TaskStatus.FAILED)
            case ev.HoldOpened():
                self.points.append(self._opened(event))
            case ev.ReviewSpared():
                self.points.append(self._spared(event))

    def _opened(self, event: ev.HoldOpened) -> Point:
        opening = event.opening
        point = Point(
            outcome="stops",
            reason=event.reason,
            layer=opening["layer"],
            task_id=event.task_id or "",
            phase=event.phase,
            decider=event.decider,
            agent=self.policy.ail.agent if event.reason is HoldReason.AGENT_DECISION else "",
            groups=tuple(opening["groups"]),
            quorum=event.quorum,
            timeout_seconds=event.timeout_seconds,
            on_timeout=event.on_timeout,
            on_reject=event.on_reject if event.reason is HoldReason.NODE_REVIEW else "",
            reminders=tuple(opening.get("reminders", ())),
            escalation=tuple(opening.get("escalation", ())),
        )
        if event.reason is HoldReason.LAYER_APPROVAL:
            return replace(point, assumed=self._assumed_by_layer(opening["layer"]))
        return self._judged(point) if event.reason is HoldReason.NODE_REVIEW else point

    def _assumed_by_layer(self, layer: int) -> tuple[str, ...]:
        """Return the unknown values without which a layer might have nothing to run."""
        each = [self._known.assumed[name] for name in self.revision.layers[layer]]
        return tuple(sorted(frozenset().union(*each))) if all(each) else ()

    def _spared(self, event: ev.ReviewSpared) -> Point:
        review = self.revision.plan.by_id[event.task_id].human_review
        return self._judged(
            Point(
                outcome="skipped",
                reason=HoldReason.NODE_REVIEW,
                layer=self.state.layer,
                task_id=event.task_id,
                phase=event.phase,
                groups=review.groups if review else (),
                quorum=review.quorum if review else 1,
            )
        )

    def _judged(self, point: Point) -> Point:
        """Return the point of a review with what the review rules say about it."""
        gate = Gate(point.reason, point.task_id, point.phase)
        verdict = evaluate_gate(self, gate)
        unknown = tuple(sorted(self._known.of_rules(self, gate, verdict)))
        point = replace(
            point,
            why=verdict.reason if verdict.sample is None else None,
            rule=verdict.rule,
            rules_version=verdict.version,
            sample=verdict.sample,
            unknown=unknown,
            assumed=tuple(sorted(self._known.assumed[point.task_id])),
        )
        if unknown:
            return replace(point, outcome="depends", why=None)
        if verdict.sample is not None and 0 < verdict.sample < 1:
            # The id of the run decides, so a simulation cannot know.
            return replace(point, outcome="sampled")
        return point

    def commit(self) -> None:
        pass

    def log_command(self, command: object, actor: Actor, source: str) -> None:
        pass

    def publish(self, *, at_once: bool) -> None:
        pass

    def publish_started(self, task_ids: Sequence[str]) -> None:
        pass

    def finished_tasks(self, task_ids: Sequence[str]) -> Mapping[str, FinishedTask]:
        # The engine reads results before it evaluates the expressions of a task.
        if self._is_late():
            raise _Stopped
        return {name: self._finished[name] for name in task_ids if name in self._finished}

    def take_commands(self) -> Iterator[QueuedCommand]:
        return iter(())

    @contextmanager
    def acting_as(self, actor: Actor, source: str) -> Iterator[None]:
        yield

    def conversation(self) -> tuple[Mapping[str, Any], ...]:
        return ()

    def decisions(self) -> tuple[Mapping[str, Any], ...]:
        return ()

    def now(self) -> float:
        return 0.0

    def heartbeat(self) -> bool:
        return False

    def slice_over(self) -> bool:
        self._moves_left -= 1
        return self._moves_left < 0

    def rest(self, until: float | None) -> bool:
        return True

    @contextmanager
    def claim(self, execution_id: str) -> Iterator[Run | None]:
        yield self

    @contextmanager
    def open(self, execution_id: str, *, expected_version: int | None) -> Iterator[Run]:
        yield self


class _ExampleRunner:
    """`ports.TaskRunner`: each task succeeds with its output in the example."""

    def __init__(self, example: Example) -> None:
        self._outputs = example.outputs

    def run(
        self, calls: Sequence[TaskCall], heartbeat: Heartbeat
    ) -> Iterator[Sequence[TaskResult]]:
        yield [
            TaskResult(call, Success(self._outputs.get(call.task.id), duration_ms=0))
            for call in calls
        ]


class _AgreeingAgent:
    """`ports.Agents`: each registered agent lets the run go on."""

    def __init__(self, run: _SimulatedRun) -> None:
        self._run = run

    def ask(self, question: AgentQuestion, heartbeat: Heartbeat) -> AgentAnswer:
        self._run.points.append(
            Point(
                outcome="asks",
                reason=HoldReason.AGENT_DECISION,
                layer=question.layer,
                decider="agent",
                agent=question.agent,
                timeout_seconds=question.timeout_seconds,
                on_timeout="continue",
            )
        )
        return AgentAnswer("continue")


class _NoPlanner:
    """`ports.Planner`: nothing in a simulation asks for a new plan."""

    def replan(self, **_question: Any) -> NewPlan:
        raise TaskFailed("a simulation has no planner", retryable=False)
