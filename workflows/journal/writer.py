"""The only writer of executions: claims, durable steps, queued commands.

Every write is one guarded statement (see `sql`): it applies completely for the holder of the
current version and fence, or not at all.  No transaction stays open while tasks run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import Q
from django.http import Http404
from redis.exceptions import RedisError

from workflows import conf
from workflows.calendars.business_time import in_clock_time
from workflows.common.crashpoints import crashpoint
from workflows.engine.plans.dag import Plan, Revision
from workflows.engine.policy.policies import Policy
from workflows.engine.protocol.actors import SYSTEM, Actor
from workflows.engine.protocol.commands import load_command
from workflows.engine.protocol.decision_history import DECISION_KINDS, decision_of, is_decision
from workflows.engine.protocol.events import (
    ContextUpdated,
    Event,
    ExecutionForked,
    MessageAdded,
    PlanRevised,
    load_event,
)
from workflows.engine.protocol.evolve import evolve, replay
from workflows.engine.protocol.ports import (
    Busy,
    FinishedTask,
    LeaseLost,
    QueuedCommand,
    StaleVersion,
)
from workflows.engine.protocol.reducers import merge_context
from workflows.engine.protocol.state import (
    ExecutionState,
    SkipReason,
    dump_state,
    forked,
    load_state,
)
from workflows.engine.protocol.status import ExecutionStatus, TaskStatus
from workflows.models import Checkpoint, Execution, ExecutionEvent, PlanRevision, Shaper, Workflow
from workflows.models import QueuedCommand as QueuedCommandRow
from workflows.realtime.change_notifications import ChangeNotifier
from workflows.security_events.grants import record_granted

from . import sql
from .lineage import ancestors_of
from .permission_rows import PARTS as PERMISSION_PARTS
from .prepared_statements import execute
from .projections import Recorded, Row, Rows, rows_of
from .shapers import shaper_rows

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Seconds that a worker spends on one execution before other executions get a turn.
SLICE_SECONDS = 2.0


class ExecutionNotFound(Exception):
    """The execution does not exist."""


class RevisionNotFound(PlanRevision.DoesNotExist, Http404):
    """The plan revision does not exist; also for a reader whose run is erased meanwhile."""


# Keyed by execution and number; bounded by 64; never stale, because stored revisions never change.
@lru_cache(maxsize=64)
def load_revision(execution_id: int, number: int) -> Revision:
    """Return a plan revision of an execution."""
    rows = execute(sql.REVISION, {"id": execution_id, "number": number})
    if not rows:
        raise RevisionNotFound
    plan, layers = rows[0]
    return Revision(
        number=number,
        plan=Plan.model_validate_json(plan),
        layers=tuple(tuple(layer) for layer in json.loads(layers)),
    )


# Keyed by the stored text; bounded by 64; never stale, because the value depends on the text only.
@lru_cache(maxsize=64)
def _load_policy(text: str) -> Policy:
    return Policy.model_validate_json(text)


class JournalRun:
    """One execution, opened for writing.  `fence` is None for a command at rest."""

    def __init__(self, execution_id: str, row: Sequence[Any], *, fence: int | None) -> None:
        version, revision = row[:2]
        # Django's connections return jsonb as text.
        state, inputs, context = (json.loads(text) for text in row[2:5])
        self.execution_id = execution_id
        self.state: ExecutionState = load_state({**state, "version": version})
        self.revision = load_revision(int(execution_id), revision)
        self.policy = _load_policy(row[5])
        self.inputs: Mapping[str, Any] = inputs
        self.context: dict[str, Any] = context
        self.queued = int(row[7])
        self.held = fence is not None
        self._fence = fence
        self._committed = self.state
        self._recorded: list[Recorded] = []
        self._taken_commands: list[int] = []
        self._actor = (SYSTEM, "worker")
        self._command_log: dict[str, Any] = {}
        self._outputs: dict[str, FinishedTask] = {}
        self._abort = False
        self._set_clock(float(row[9]))
        self._started = self._watched = self._renewed = time.monotonic()
        self._notifier = ChangeNotifier(execution_id, self.state.version)

    # --- recording ------------------------------------------------------------------------------

    def record(self, *events: Event) -> None:
        for event in events:
            after = evolve(self.state, event)
            moved = self.state.status is not self._committed.status
            if moved and after.status is not self.state.status:
                # The database checks each status change, so a second change needs its own step.
                self.commit()
            self.state = after
            self._recorded.append(Recorded(event, after, *self._actor))
            if isinstance(event, ContextUpdated):
                self.context = merge_context(self.context, event.updates)
            if isinstance(event, PlanRevised):
                # The next move may be chosen before this event is committed.
                self.revision = Revision(event.revision, event.plan, event.layers)
            self._cache_outputs(event)

    def _cache_outputs(self, event: Event) -> None:
        """Cache the outputs that the next layer reads."""
        if event.kind == "layer_started":
            needed = {need for name in event.tasks for need in self._needs(name)}
            self._outputs = {k: v for k, v in self._outputs.items() if k in needed}
            for name, reason in event.skips.items():
                self._outputs[name] = FinishedTask(TaskStatus.SKIPPED, skip=reason)
        elif event.kind == "task_succeeded":
            self._outputs[event.task_id] = FinishedTask(
                TaskStatus.SUCCEEDED, event.output, inputs=event.inputs
            )
        elif event.kind == "task_errored" and event.retry_at is None:
            self._outputs[event.task_id] = FinishedTask(TaskStatus.FAILED)
        elif event.kind == "hold_decided" and event.task_id:
            self._outputs.pop(event.task_id, None)

    def _needs(self, task_id: str) -> frozenset[str]:
        return self.revision.plan.by_id[task_id].needs

    @contextmanager
    def acting_as(self, actor: Actor, source: str) -> Iterator[None]:
        before, self._actor = self._actor, (actor, source)
        try:
            yield
        finally:
            self._actor = before

    def log_command(self, command: Any, actor: Actor, source: str) -> None:
        self._command_log = {
            "log_kind": command.kind,
            "log_actor": actor.name,
            "log_actor_id": actor.id,
            "log_source": source,
        }

    # --- durable steps --------------------------------------------------------------------------

    def commit(self) -> None:
        if self._recorded or self._taken_commands or self._command_log:
            self._write(sql.LEASE_KEPT if self.held else sql.LEASE_NONE)

    def rest(self, until: float | None) -> bool:
        if not self.held:
            return True
        crashpoint("rest.before")
        if self._recorded or self._taken_commands:
            self._write(sql.LEASE_BACK, wake_at=until)
        else:
            self._release_lease(until)
        crashpoint("rest.after")
        self.held = bool(self.queued)
        return not self.held

    def _release_lease(self, until: float | None) -> None:
        parameters = {"id": int(self.execution_id), "fence": self._fence, "wake_at": until}
        rows = execute(sql.REST.format(lease=sql.LEASE_BACK), {**parameters, "taken": 0})
        if not rows:
            raise LeaseLost
        self.queued, self._abort = int(rows[0][0]), bool(rows[0][1])

    def _write(self, lease: str, *, wake_at: float | None = None) -> None:
        rows = rows_of(self._recorded, self.context)
        rows.holds = [self._in_clock_time(row) for row in rows.holds]
        rows.shapers = shaper_rows(self._recorded, self.policy)
        guard = sql.GUARD_REST if self._fence is None else sql.GUARD_FENCE
        parts, parameters = self._parts(rows)
        statement = sql.COMMIT_STEP.format(lease=lease, guard=guard, parts="".join(parts))
        crashpoint("step.before")
        scalars = {**self._scalars(rows), "wake_at": wake_at}
        result = self._execute_step(statement, {**scalars, **parameters})
        crashpoint("step.after")
        self.queued, self._abort = int(result[0][0]), bool(result[0][1])
        self._set_clock(float(result[0][2]))
        self._renewed = time.monotonic()
        self._recorded, self._taken_commands, self._command_log = [], [], {}
        now, before = self.state.status, self._committed.status
        status_changed = now is not before and now is not ExecutionStatus.RUNNING
        self._committed = self.state
        if self._fence is not None:
            self.publish(at_once=status_changed)

    def _execute_step(self, statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Execute the statement; a step that grants something is recorded with it.

        Raises LeaseLost or StaleVersion if another process was faster.
        """
        with transaction.atomic() if "grants" in parameters else nullcontext():
            result = execute(statement, parameters)
            if not result:
                raise LeaseLost if self._fence is not None else StaleVersion
            if "grants" in parameters:
                record_granted([row["hold_id"] for row in json.loads(parameters["grants"])])
        return result

    def _in_clock_time(self, hold: Row) -> Row:
        """Return the hold with its deadlines counted in the business hours of the policy."""
        hours = self.policy.business_hours
        if hours is None or hold["decider"] != "human":
            return hold
        return {**hold, **in_clock_time(hours, datetime.now(UTC), hold)}

    def _scalars(self, rows: Rows) -> dict[str, Any]:
        state = self.state
        return {
            "id": int(self.execution_id),
            "expected": self._committed.version,
            "fence": self._fence,
            "lease": conf.lease_seconds(),
            "version": state.version,
            "status": state.status.value,
            "revision": state.revision,
            "layer": state.layer,
            "total_layers": state.total_layers,
            "state": dump_state(state),
            "context": None if rows.context is None else json.dumps(rows.context),
            "error": rows.error,
            "error_code": rows.error_code,
            "error_params": None if rows.error_params is None else json.dumps(rows.error_params),
            "final": state.status.is_final,
            "taken": len(self._taken_commands),
        }

    def _parts(self, rows: Rows) -> tuple[list[str], dict[str, Any]]:
        parts: list[str] = []
        parameters: dict[str, Any] = {}
        for name in _PARTS:
            found = getattr(rows, name)
            if found:
                parts.append(getattr(sql, name.upper()))
                parameters[name] = json.dumps(found)
        if rows.checkpoints and conf.checkpoints_kept():
            parts.append(sql.CHECKPOINTS)
            parameters["checkpoints"] = json.dumps(rows.checkpoints)
            parameters["prune_to"] = rows.checkpoints[-1]["layer"] - conf.checkpoints_kept()
        listed = [name for name in ("holds", "hold_updates") if getattr(rows, name)]
        if listed:
            holds = " UNION ALL ".join(f"TABLE {name}" for name in listed)
            parts.append(sql.LISTS.replace("HOLDS", holds))
        for name, statement, make in PERMISSION_PARTS:
            found = make(self._recorded, self.revision.plan)
            if found:
                parts.append(statement)
                parameters[name] = json.dumps(found)
        if self._command_log:
            parts.append(sql.LOG_COMMAND)
            parameters.update(self._command_log)
        if self._taken_commands:
            parts.append(sql.TAKE_COMMANDS)
            parameters["taken_ids"] = self._taken_commands
        if self.state.status.is_final and self._committed.holds:
            parts.append(sql.CLOSE_HOLDS)
            parameters["decided_ids"] = [row["id"] for row in rows.hold_updates]
        return parts, parameters

    def publish(self, *, at_once: bool) -> None:
        """Notify subscribers of the committed events.

        A worker throttles notifications: `heartbeat` sends the rest while tasks run, and a pause or
        an end is sent at once.  After a command at rest, its sender calls this method once the
        worker's job is enqueued.
        """
        self._notifier.publish(self._committed, at_once=at_once)

    def publish_started(self, task_ids: Sequence[str]) -> None:
        self._notifier.publish_started(self._committed, task_ids)

    # --- reading --------------------------------------------------------------------------------

    def finished_tasks(self, task_ids: Sequence[str]) -> Mapping[str, FinishedTask]:
        missing = [name for name in task_ids if name not in self._outputs]
        if missing:
            parameters = {"id": int(self.execution_id), "tasks": missing, "layer": self.state.layer}
            for name, status, skip, *data in execute(sql.SETTLED, parameters):
                value, inputs = (None if text is None else json.loads(text) for text in data)
                reason = SkipReason(skip) if skip else None
                self._outputs[name] = FinishedTask(TaskStatus(status), value, reason, inputs)
        return {name: self._outputs[name] for name in task_ids if name in self._outputs}

    def take_commands(self) -> Iterator[QueuedCommand]:
        waiting = QueuedCommandRow.objects.filter(
            execution_id=int(self.execution_id), taken_at__isnull=True
        )
        rows = list(waiting)
        # The counter may be ahead of the visible rows; only the taken rows are subtracted.
        self.queued = 0
        crashpoint("commands.taken")
        for row in rows:
            self._taken_commands.append(row.pk)
            command = load_command(row.command, internal=True)
            actor = Actor(row.actor, row.actor_id, row.token_id)
            yield QueuedCommand(row.pk, command, actor, row.source)

    def conversation(self) -> tuple[Mapping[str, Any], ...]:
        rows = ExecutionEvent.objects.filter(
            execution_id=int(self.execution_id), kind="message_added"
        ).order_by("-seq")
        newest = rows.values_list("payload", flat=True)[: conf.conversation_messages()]
        return tuple(reversed(list(newest)))

    def decisions(self) -> tuple[Mapping[str, Any], ...]:
        number = int(self.execution_id)
        history = Q(execution_id=number)
        for ancestor in ancestors_of(number):
            history |= ancestor.events
        rows = ExecutionEvent.objects.filter(history, kind__in=DECISION_KINDS)
        return tuple(
            {
                "execution_id": str(row.execution_id),
                "seq": row.seq,
                **decision_of(row.kind, row.payload, row.by),
            }
            for row in rows.order_by("execution_id", "seq")
            if is_decision(row.kind, row.payload)
        )

    # --- time and lease -------------------------------------------------------------------------

    def _set_clock(self, epoch: float) -> None:
        self._epoch, self._epoch_at = epoch, time.monotonic()

    def now(self) -> float:
        return self._epoch + time.monotonic() - self._epoch_at

    def slice_over(self) -> bool:
        return time.monotonic() - self._started > SLICE_SECONDS

    def heartbeat(self) -> bool:
        moment = time.monotonic()
        self.publish(at_once=False)
        if moment - self._watched < HEARTBEAT_SECONDS:
            return self._abort
        self._watched = moment
        parameters = {
            "id": int(self.execution_id),
            "fence": self._fence,
            "lease": conf.lease_seconds(),
        }
        renew = moment - self._renewed > conf.lease_seconds() / 4
        rows = execute(sql.RENEW_LEASE if renew else sql.READ_LEASE, parameters)
        if not rows or rows[0][0] != self._fence:
            raise LeaseLost
        if renew:
            self._renewed = moment
        self.queued, self._abort = int(rows[0][1]), bool(rows[0][2])
        return self._abort


#: Fields of `Rows` that are written unchanged, each by the SQL constant of its name.
_PARTS = (
    "events", "attempts", "attempt_updates", "holds", "hold_updates", "revisions", "receipts",
    "shapers",
)  # fmt: skip

#: Errors of the infrastructure, which do not count as a lost worker.
_OUTAGES = (DatabaseError, InterfaceError, RedisError)

#: Interval at which a worker with running tasks reads its lease and the abort flag.
HEARTBEAT_SECONDS = 0.3


class DjangoJournal:
    """engine.ports.Journal on PostgreSQL."""

    def __init__(self, owner: str = "") -> None:
        self._owner = owner

    @contextmanager
    def claim(self, execution_id: str) -> Iterator[JournalRun | None]:
        rows = execute(
            sql.CLAIM,
            {
                "id": int(execution_id),
                "owner": self._owner,
                "lease": conf.lease_seconds(),
                "lost_limit": conf.lost_claims_limit(),
            },
        )
        if not rows:
            yield None
            return
        run = JournalRun(execution_id, rows[0], fence=rows[0][6])
        run._abort = bool(rows[0][8])
        try:
            crashpoint("claim.after")
            yield run
        except LeaseLost:
            raise
        except BaseException as error:
            # Another worker may try soon, but not in a tight loop.
            release(
                run,
                delay=5.0,
                error=f"{type(error).__name__}: {error}",
                # An outage or a request to stop is no fault of the execution.
                lost=isinstance(error, Exception) and not isinstance(error, _OUTAGES),
            )
            raise
        finally:
            run.publish(at_once=True)
        if run.held:
            release(run, delay=None, error="")

    @contextmanager
    def open(self, execution_id: str, *, expected_version: int | None) -> Iterator[JournalRun]:
        rows = execute(sql.READ, {"id": int(execution_id)})
        if not rows:
            raise ExecutionNotFound
        row = rows[0]
        if expected_version is not None and row[0] != expected_version:
            raise StaleVersion
        if row[8]:
            raise Busy
        yield JournalRun(execution_id, row, fence=None)


def release(run: JournalRun, *, delay: float | None, error: str, lost: bool = False) -> None:
    """Release the lease without a step; the next worker may claim after `delay` seconds.

    With `lost` the claim counts toward the limit of lost workers.
    """
    parameters = {
        "id": int(run.execution_id),
        "fence": run._fence,
        "delay": delay,
        "error": error[:2000],
        "lost": int(lost),
    }
    execute(sql.RELEASE, parameters)
    run.held = False


def replayed(execution_id: int) -> ExecutionState:
    """Return the state from folding the stored events of an execution."""
    rows = ExecutionEvent.objects.filter(execution_id=execution_id).order_by("seq")
    stored = rows.values_list("kind", "payload").iterator()
    return replay(load_event(kind, payload) for kind, payload in stored)


def queue_command(
    execution_id: int, command: Any, *, actor: Actor, source: str
) -> tuple[int, str] | None:
    """Queue a command for the worker that holds the lease.

    Returns the execution's version and status, or None if no worker holds the lease.
    """
    rows = execute(
        sql.QUEUE,
        {
            "id": execution_id,
            "command": command.model_dump_json(),
            "kind": command.kind,
            "abort": command.kind == "abort",
            "actor": actor.name,
            "actor_id": actor.id,
            "token_id": actor.token,
            "source": source,
        },
    )
    crashpoint("command.queued")
    return (int(rows[0][0]), str(rows[0][1])) if rows else None


def create(
    *,
    workflow: Workflow | None,
    plan: Plan,
    policy: Policy,
    policy_overrides: Sequence[Mapping[str, Any]],
    inputs: Mapping[str, Any],
    title: str,
    created_by: User | None,
) -> Execution:
    """Create an execution, PENDING at version 0, with the first revision of its plan.

    The JSON of the returned execution is in the database's order of keys.
    """
    first = Revision.first(plan)
    with transaction.atomic():
        execution = Execution.objects.create(
            workflow=workflow,
            title=title,
            total_layers=len(first.layers),
            inputs=dict(inputs),
            policy=policy.model_dump(mode="json"),
            policy_overrides=list(policy_overrides),
            created_by=created_by,
        )
        PlanRevision.objects.create(
            execution=execution,
            number=first.number,
            plan=plan.model_dump(mode="json", by_alias=True, exclude_none=True),
            layers=first.layers,
            cause="start",
        )
        execute(sql.LIST_EXECUTION, {"id": execution.pk})
    execution.refresh_from_db()
    execution.workflow, execution.created_by = workflow, created_by
    return execution


def fork(
    *,
    parent: Execution,
    checkpoint: Checkpoint,
    plan: Plan,
    inputs: Mapping[str, Any],
    context: Mapping[str, Any],
    policy_overrides: Sequence[Mapping[str, Any]],
    created_by: User | None,
) -> Execution:
    """Create an execution from the parent's checkpoint, with its attempts and messages.

    `plan` has the tasks and layers of the checkpoint's revision.
    """
    revision = load_revision(parent.pk, checkpoint.revision)
    start = forked(
        load_state(checkpoint.state), total_layers=len(revision.layers), parent=str(parent.pk)
    )
    execution = Execution.objects.create(
        workflow=parent.workflow,
        title=parent.title,
        parent=parent,
        forked_at_layer=checkpoint.layer,
        layer=start.layer,
        total_layers=start.total_layers,
        state=json.loads(dump_state(start)),
        inputs=dict(inputs),
        context=dict(context),
        policy=parent.policy,
        policy_overrides=list(policy_overrides),
        created_by=created_by,
    )
    PlanRevision.objects.create(
        execution=execution,
        number=1,
        plan=plan.model_dump(mode="json", by_alias=True, exclude_none=True),
        layers=revision.layers,
        cause="fork",
    )
    execute(sql.LIST_EXECUTION, {"id": execution.pk})
    _copy_shapers(parent, execution)
    execute(
        sql.COPY_ATTEMPTS,
        {"parent": parent.pk, "child": execution.pk, "layer": checkpoint.layer},
    )
    _copy_messages(parent, checkpoint, execution, start)
    return execution


def _copy_shapers(parent: Execution, child: Execution) -> None:
    """Record that people who started or shaped the parent shaped the fork too."""
    people = Shaper.objects.filter(execution=parent).order_by("user_id").distinct()
    Shaper.objects.bulk_create(
        Shaper(execution=child, user_id=user, way=Shaper.Way.ORIGIN)
        for user in people.values_list("user_id", flat=True)
    )


def _copy_messages(
    parent: Execution, checkpoint: Checkpoint, child: Execution, start: ExecutionState
) -> None:
    rows = ExecutionEvent.objects.filter(
        execution=parent, kind="message_added", seq__lte=checkpoint.version
    ).order_by("seq")
    with DjangoJournal().open(str(child.pk), expected_version=0) as run:
        run.record(ExecutionForked(parent=str(parent.pk), layer=checkpoint.layer, start=start))
        for row in rows:
            with run.acting_as(row.by, row.source):
                run.record(MessageAdded.model_validate(row.payload))
        run.commit()
        run.publish(at_once=True)
