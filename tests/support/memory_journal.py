"""engine.ports.Journal in plain Python: one dict of executions, a clock that tests move by hand.

It keeps the same promises as the journal on PostgreSQL: one statement per step, guarded by version
and fence; leases that run out; commands that wait while a worker holds one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.actors import actor_named
from workflows.engine.plans.dag import Plan, Revision
from workflows.engine.policy.policies import Policy
from workflows.engine.protocol import events as ev
from workflows.engine.protocol.actors import SYSTEM, Actor
from workflows.engine.protocol.decision_history import decision_of, is_decision
from workflows.engine.protocol.evolve import evolve
from workflows.engine.protocol.ports import (
    Busy,
    FinishedTask,
    LeaseLost,
    QueuedCommand,
    StaleVersion,
)
from workflows.engine.protocol.reducers import merge_context
from workflows.engine.protocol.state import ExecutionState, HoldReason, SkipReason, forked
from workflows.engine.protocol.status import ExecutionStatus, TaskStatus

LEASE_SECONDS = 30.0
#: How many checkpoints of an execution are kept.
CHECKPOINTS_KEPT = 5
_LIVE = (ExecutionStatus.PENDING, ExecutionStatus.RUNNING)


@dataclass(frozen=True)
class Bookmark:
    """A checkpoint: the state at the end of a layer, from which a fork goes on."""

    layer: int
    revision: int
    context: Mapping[str, Any]
    state: ExecutionState


@dataclass
class Stored:
    """One execution as it is kept: what a durable step has written, and who holds it."""

    plan: Plan
    policy: Policy
    inputs: Mapping[str, Any]
    context: Mapping[str, Any]
    revisions: dict[int, Revision]
    state: ExecutionState = field(default_factory=ExecutionState)
    events: list[ev.Event] = field(default_factory=list)
    #: Who caused each event, in the order of `events`.
    actors: list[Actor] = field(default_factory=list)
    checkpoints: list[Bookmark] = field(default_factory=list)
    finished: dict[str, FinishedTask] = field(default_factory=dict)
    #: When a hold's time runs out, by its id; only of holds that are open.
    deadlines: dict[str, float] = field(default_factory=dict)
    #: Until when an answer can be taken back, by the id of its hold.
    undo_until: dict[str, float] = field(default_factory=dict)
    queued: list[QueuedCommand] = field(default_factory=list)
    fence: int = 0
    lease_until: float | None = None
    wake_at: float | None = None

    def is_held(self, now: float) -> bool:
        return self.lease_until is not None and self.lease_until > now

    def has_work(self, now: float) -> bool:
        awake = self.wake_at is None or self.wake_at <= now
        return bool(self.queued) or (self.state.status in _LIVE and awake)


class MemoryRun:
    """engine.ports.Run."""

    def __init__(self, journal: MemoryJournal, execution_id: str, *, fence: int | None) -> None:
        stored = journal.executions[execution_id]
        self.execution_id = execution_id
        self.state = stored.state
        self.revision = stored.revisions[stored.state.revision]
        self.policy = stored.policy
        self.inputs = stored.inputs
        self.context: Mapping[str, Any] = stored.context
        self.queued = len(stored.queued)
        self.held = fence is not None
        self.moves = 0
        self._journal, self._stored, self._fence = journal, stored, fence
        self._committed = stored.state
        self._recorded: list[tuple[ev.Event, Actor, Bookmark | None]] = []
        self._speaker = SYSTEM
        self._taken: list[QueuedCommand] = []
        #: How tasks ended by what is recorded; None for one that was sent back.
        self._told: dict[str, FinishedTask | None] = {}

    def log_command(self, command: object, actor: Actor, source: str) -> None:
        """Commands are logged by the journal on PostgreSQL alone."""

    def publish(self, *, at_once: bool) -> None:
        """Nobody listens."""

    def publish_started(self, task_ids: Sequence[str]) -> None:
        self._journal.started.append(tuple(task_ids))

    def record(self, *events: ev.Event) -> None:
        for event in events:
            after = evolve(self.state, event)
            moved = self.state.status is not self._committed.status
            if moved and after.status is not self.state.status:
                self.commit()
            self.state = after
            self._recorded.append((event, self._speaker, self._bookmark(event)))
            if isinstance(event, ev.PlanRevised):
                # The next move may be made before this is committed.
                self.revision = Revision(event.revision, event.plan, event.layers)
            if isinstance(event, ev.ContextUpdated):
                self.context = merge_context(self.context, event.updates)
            self._told |= _settles(event, self._known())

    def _bookmark(self, event: ev.Event) -> Bookmark | None:
        if not isinstance(event, ev.LayerClosed):
            return None
        state = replace(self.state, tasks={}, holds=())
        return Bookmark(event.layer, state.revision, self.context, state)

    def commit(self) -> None:
        if self._recorded or self._taken:
            wake_at = self._stored.wake_at if self.held else None
            self._write(held=self.held, wake_at=wake_at)

    def _write(self, *, held: bool, wake_at: float | None) -> None:
        """One durable step: all of it happens between the two hooks, or none of it."""
        stored, journal = self._stored, self._journal
        journal.before_step(self.execution_id)
        if self._fence is None:
            current = not stored.is_held(journal.now)
        else:
            current = stored.fence == self._fence
        if not current or stored.state.version != self._committed.version:
            raise StaleVersion if self._fence is None else LeaseLost
        for event, actor, bookmark in self._recorded:
            stored.actors.append(actor)
            if bookmark is not None:
                stored.checkpoints = [*stored.checkpoints, bookmark][-CHECKPOINTS_KEPT:]
            _keep(stored, event, journal.now)
        stored.state, stored.context = self.state, self.context
        stored.finished = self._known()
        stored.queued = [each for each in stored.queued if each not in self._taken]
        stored.deadlines = {
            hold.id: stored.deadlines[hold.id]
            for hold in self.state.holds
            if hold.id in stored.deadlines
        }
        stored.undo_until = {
            hold.id: stored.undo_until[hold.id]
            for hold in self.state.holds
            if hold.id in stored.undo_until and hold.answer is not None
        }
        stored.lease_until = journal.now + LEASE_SECONDS if held else None
        stored.wake_at = wake_at
        self.queued = len(stored.queued)
        self._committed, self._recorded, self._taken = self.state, [], []
        self.revision = stored.revisions[self.state.revision]
        journal.after_step(self.execution_id)

    def finished_tasks(self, task_ids: Sequence[str]) -> Mapping[str, FinishedTask]:
        known = self._known()
        return {name: known[name] for name in task_ids if name in known}

    def _known(self) -> dict[str, FinishedTask]:
        known = {**self._stored.finished, **self._told}
        return {name: each for name, each in known.items() if each is not None}

    def take_commands(self) -> Iterator[QueuedCommand]:
        waiting = [each for each in self._stored.queued if each not in self._taken]
        self.queued = 0
        for each in waiting:
            self._taken.append(each)
            yield each

    @contextmanager
    def acting_as(self, actor: Actor, source: str) -> Iterator[None]:
        before, self._speaker = self._speaker, actor
        try:
            yield
        finally:
            self._speaker = before

    def conversation(self) -> tuple[Mapping[str, Any], ...]:
        said = [each for each in self._stored.events if isinstance(each, ev.MessageAdded)]
        return tuple(ev.dump_event(each) for each in said)

    def decisions(self) -> tuple[Mapping[str, Any], ...]:
        return self._journal.decisions_of(self.execution_id)

    def now(self) -> float:
        return self._journal.now

    def heartbeat(self) -> bool:
        if self._stored.fence != self._fence:
            raise LeaseLost
        self.queued = len(self._stored.queued)
        return any(each.command.kind == "abort" for each in self._stored.queued)

    def slice_over(self) -> bool:
        self.moves += 1
        return self.moves > self._journal.slice_moves

    def rest(self, until: float | None) -> bool:
        if not self.held:
            return True
        left = len(self._stored.queued) - len(self._taken)
        if self._recorded or self._taken:
            self._write(held=bool(left), wake_at=until)
        elif self._stored.fence != self._fence:
            raise LeaseLost
        else:
            self._stored.wake_at = until
            self._stored.lease_until = self._journal.now + LEASE_SECONDS if left else None
        self.queued = left
        self.held = bool(left)
        return not self.held


class MemoryJournal:
    """engine.ports.Journal; `now` is its clock, in seconds."""

    def __init__(self, *, slice_moves: int = 1000) -> None:
        self.executions: dict[str, Stored] = {}
        self.now = 1000.0
        self.slice_moves = slice_moves
        #: What `publish_started` was called with, over all executions.
        self.started: list[tuple[str, ...]] = []
        self.before_step: Callable[[str], object] = lambda execution_id: None
        self.after_step: Callable[[str], object] = lambda execution_id: None
        self.claimed: Callable[[str], object] = lambda execution_id: None

    def with_slice(self, moves: int) -> MemoryJournal:
        """The same executions, for a worker whose time slice is over after so many moves."""
        other = copy(self)
        other.slice_moves = moves
        return other

    def create(
        self,
        plan: Plan,
        *,
        policy: Policy | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> str:
        """A new execution; its id."""
        first = Revision.first(plan)
        execution_id = str(len(self.executions) + 1)
        self.executions[execution_id] = Stored(
            plan, policy or Policy(), dict(inputs or {}), {}, {first.number: first}
        )
        return execution_id

    def fork(self, parent_id: str, checkpoint: Bookmark) -> str:
        """A new execution that goes on from a checkpoint; its id."""
        parent = self.executions[parent_id]
        old = parent.revisions[checkpoint.revision]
        first = Revision(1, old.plan, old.layers)
        done = [name for layer in old.layers[: checkpoint.layer + 1] for name in layer]
        execution_id = str(len(self.executions) + 1)
        start = forked(checkpoint.state, total_layers=len(first.layers), parent=parent_id)
        self.executions[execution_id] = Stored(
            first.plan,
            parent.policy,
            dict(parent.inputs),
            dict(checkpoint.context),
            {1: first},
            state=start,
            finished={name: parent.finished[name] for name in done},
        )
        with self.open(execution_id, expected_version=0) as run:
            run.record(ev.ExecutionForked(parent=parent_id, layer=checkpoint.layer, start=start))
            before = checkpoint.state.version
            for event, actor in zip(parent.events[:before], parent.actors, strict=False):
                if isinstance(event, ev.MessageAdded):
                    with run.acting_as(actor, "test"):
                        run.record(event)
            run.commit()
        return execution_id

    def decisions_of(
        self, execution_id: str, up_to_layer: int | None = None
    ) -> tuple[Mapping[str, Any], ...]:
        """Decisions of an execution and of those it comes from, up to the end of a layer."""
        found: list[Mapping[str, Any]] = []
        stored = self.executions[execution_id]
        pairs = zip(stored.events, stored.actors, strict=True)
        for seq, (event, actor) in enumerate(pairs, 1):
            if isinstance(event, ev.ExecutionForked):
                found += self.decisions_of(event.parent, event.layer)
            payload = ev.dump_event(event)
            if is_decision(event.kind, payload):
                told = decision_of(event.kind, payload, actor)
                found.append({"execution_id": execution_id, "seq": seq, **told})
            if isinstance(event, ev.LayerClosed) and event.layer == up_to_layer:
                break
        return tuple(found)

    @contextmanager
    def claim(self, execution_id: str) -> Iterator[MemoryRun | None]:
        stored = self.executions[execution_id]
        if stored.is_held(self.now) or not stored.has_work(self.now):
            yield None
            return
        stored.fence += 1
        stored.wake_at = None
        stored.lease_until = self.now + LEASE_SECONDS
        run = MemoryRun(self, execution_id, fence=stored.fence)
        self.claimed(execution_id)
        yield run
        if run.held and stored.fence == run._fence:
            stored.lease_until = None

    @contextmanager
    def open(self, execution_id: str, *, expected_version: int | None) -> Iterator[MemoryRun]:
        stored = self.executions[execution_id]
        if expected_version is not None and stored.state.version != expected_version:
            raise StaleVersion
        if stored.is_held(self.now):
            raise Busy
        yield MemoryRun(self, execution_id, fence=None)

    def queue(self, execution_id: str, command: Any, *, actor: str) -> None:
        """Leave a command for the worker that holds the lease."""
        queued = self.executions[execution_id].queued
        queued.append(QueuedCommand(len(queued) + 1, command, actor_named(actor), "test"))


def _keep(stored: Stored, event: ev.Event, now: float) -> None:
    """What an event writes besides itself: plans, deadlines."""
    stored.events.append(event)
    if isinstance(event, ev.PlanRevised):
        stored.revisions[event.revision] = Revision(event.revision, event.plan, event.layers)
    elif isinstance(event, ev.HoldOpened) and event.timeout_seconds is not None:
        stored.deadlines[event.hold_id] = now + event.timeout_seconds
    elif isinstance(event, ev.HoldAnswered):
        stored.undo_until[event.hold_id] = now + event.undo_seconds
    elif isinstance(event, ev.HoldExtended) and event.hold_id in stored.deadlines:
        stored.deadlines[event.hold_id] += event.seconds


def _settles(
    event: ev.Event, known: Mapping[str, FinishedTask]
) -> Mapping[str, FinishedTask | None]:
    """How the tasks that an event is about have ended; None takes an end back."""
    match event:
        case ev.LayerStarted():
            return {
                name: FinishedTask(TaskStatus.SKIPPED, skip=why)
                for name, why in event.skips.items()
            }
        case ev.LayerSkipped():
            skipped = FinishedTask(TaskStatus.SKIPPED, skip=SkipReason.COMMAND)
            return dict.fromkeys(event.tasks, skipped)
        case ev.TaskSucceeded():
            return {
                event.task_id: FinishedTask(TaskStatus.SUCCEEDED, event.output, inputs=event.inputs)
            }
        case ev.TaskErrored() if event.retry_at is None:
            return {event.task_id: FinishedTask(TaskStatus.FAILED)}
        case ev.HoldDecided() if event.task_id:
            return _decided(event, event.task_id, known)
    return {}


def _decided(
    event: ev.HoldDecided, task_id: str, known: Mapping[str, FinishedTask]
) -> Mapping[str, FinishedTask | None]:
    is_output = event.phase == "AFTER_EXECUTION"
    if event.decision == "REQUEST_CHANGES":
        return {task_id: None}
    if event.decision == "APPROVE":
        return (
            {task_id: replace(known[task_id], output=event.edits)}
            if (is_output and event.edited)
            else {}
        )
    if event.reason is HoldReason.ESCALATION:
        return {task_id: FinishedTask(TaskStatus.FAILED)}
    if event.on_reject == "skip":
        return {task_id: FinishedTask(TaskStatus.SKIPPED, skip=SkipReason.REVIEWER)}
    return {task_id: FinishedTask(TaskStatus.REJECTED)}
