"""The sweeper: enqueue lost work again, expire and escalate holds.

PostgreSQL is the outbox: an execution that has work and no live lease is enqueued again after at
most `sweep_seconds`.  All times are the database's.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.db import close_old_connections, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.module_loading import import_string

from workflows import conf
from workflows.common.crashpoints import crashpoint
from workflows.engine.protocol.actors import SYSTEM
from workflows.engine.protocol.commands import EscalateHold, ExpireHold
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.ports import StaleVersion
from workflows.journal import sweeper_queries as journal_due
from workflows.models import Hold
from workflows.planning.learning import batched, unlearned

from . import dispatch
from .services import fail_lost_execution, submit_command

logger = logging.getLogger(__name__)

#: Seconds for which a hook is left out of the rounds after it found nothing.
REST_SECONDS = {"housekeeping_hooks": 30.0, "deletion_hooks": 300.0}


@dataclass(frozen=True, slots=True)
class Sweep:
    """The result of one round: executions enqueued again, and items that hooks handled."""

    enqueued: int
    hooks: int


def sweep(rests: Rests | None = None) -> Sweep:
    """Run one round: enqueue lost work again and run the hooks (such as timers of holds).

    A hook that fails is logged and does not prevent the others from running.  `failing` names it
    until it succeeds.  Hooks for timers of holds run while a timer is due.  With `rests`, a hook
    for housekeeping or for deleting old rows that found nothing is left out for a while.
    """
    due = journal_due.what_is_due(patience=conf.sweep_seconds())
    enqueued = _enqueue_overdue() if due.overdue else 0
    _run("lost executions", fail_lost_executions if due.unclaimable else _do_nothing)
    done = _run("timers", _run_timers if due.timer else _do_nothing)
    for path in settings.HOLDPOINT.get("sweep_hooks", ()):
        done += _run(path, import_string(path))
    rests = rests or Rests()
    rests.look(due.newest_event)
    for kind, seconds in REST_SECONDS.items():
        for path in settings.HOLDPOINT.get(kind, ()):
            if not rests.has(path):
                found = _run(path, import_string(path))
                rests.after(path, found, seconds)
                done += found
    return Sweep(enqueued=enqueued, hooks=done)


def _enqueue_overdue() -> int:
    """Enqueue the executions that have work and no lease, and return how many."""
    overdue = journal_due.take_overdue(patience=conf.sweep_seconds())
    if overdue:
        crashpoint("sweep.marked")
    for execution_id in overdue:
        dispatch.enqueue(dispatch.ADVANCE, execution_id)
    if overdue:
        logger.info("enqueued %s executions again", len(overdue))
    return len(overdue)


def _do_nothing() -> int:
    return 0


def _run_timers() -> int:
    """Run the hooks of holds whose undo time, deadline, reminder or escalation step is due."""
    done = _run("agent holds", expire_agent_holds)
    done += _run("escalation", escalate_due)
    for path in settings.HOLDPOINT.get("timer_hooks", ()):
        done += _run(path, import_string(path))
    return done


class Rests:
    """The hooks that rest because they found nothing, at most `REST_SECONDS`.

    New events of the journal end the rest of a hook for housekeeping, because they may be work for
    it.  They are none for a hook that deletes old rows.
    """

    def __init__(self) -> None:
        self._ends: dict[str, float] = {}
        self._newest = 0

    def look(self, newest: int) -> None:
        """End the rests of housekeeping if the journal has new events; `newest` is its last id."""
        if newest != self._newest:
            self._newest = newest
            for path in settings.HOLDPOINT.get("housekeeping_hooks", ()):
                self._ends.pop(path, None)

    def has(self, path: str) -> bool:
        return time.monotonic() < self._ends.get(path, 0.0)

    def after(self, path: str, found: int, seconds: float) -> None:
        if not found and not _failing[path]:
            self._ends[path] = time.monotonic() + seconds


def fail_lost_executions() -> int:
    """End executions that lost too many workers in a row, and return how many."""
    done = 0
    for each in journal_due.unclaimable_executions():
        done += fail_lost_execution(
            execution_id=each.execution_id, version=each.version, lost=each.lost, error=each.error
        )
        logger.error(
            "gave up execution %s: it lost %s workers in a row", each.execution_id, each.lost
        )
    return done


def seconds_to_next() -> float:
    """Return the time until the next round, which is earlier if an undo period ends before."""
    seconds = journal_due.seconds_to_undo_end()
    return conf.sweep_seconds() if seconds is None else min(conf.sweep_seconds(), seconds)


def enqueue_learning() -> int:
    """Enqueue learning from ended executions if the low queue is empty; returns how many.

    An execution does not enqueue this itself, because the job would cost as much as a short
    execution.
    """
    if dispatch.queue_length("low"):
        return 0
    ids = unlearned()
    for batch in batched(ids):
        dispatch.enqueue(dispatch.LEARN, *batch, queue="low")
    return len(ids)


def expire_agent_holds() -> int:
    """Expire holds that an external agent did not decide; returns how many.

    A hook of the reviews app expires holds for people.
    """
    late = Hold.objects.filter(
        status=Hold.Status.OPEN, decider="agent", expires_at__lte=Now()
    ).values_list("id", "execution_id")[:500]
    done = 0
    for hold_id, execution_id in late:
        try:
            submit_command(
                execution_id=execution_id,
                command=ExpireHold(hold=hold_id),
                actor=SYSTEM,
                source="sweeper",
            )
        except (Refused, StaleVersion):
            continue  # The hold was decided meanwhile.
        done += 1
    return done


def escalate_due(limit: int = 200) -> int:
    """Take the escalation steps that are due; returns how many.

    Each step is taken once: a sweeper locks the execution, which records the step of its hold.
    """
    done, seen = 0, [""]
    while len(seen) <= limit:
        with transaction.atomic():
            # Lock the execution before the hold, as a decision does, to avoid deadlocks.
            rows = _to_escalate().exclude(pk__in=seen).order_by("escalates_at")
            locked = rows.select_related("execution").select_for_update(
                skip_locked=True, of=("execution",), no_key=True
            )
            hold = locked.only("id", "execution__id").first()
            if hold is None:
                return done
            seen.append(hold.pk)
            done += _escalate(hold.pk)
    return done


def _to_escalate() -> QuerySet[Hold]:
    return Hold.objects.filter(status=Hold.Status.OPEN, escalates_at__lte=Now())


def _escalate(hold_id: str) -> bool:
    """Take one step, in the transaction in which the caller locked the execution."""
    # Another transaction may have changed the hold before this one got the lock.
    hold = _to_escalate().filter(pk=hold_id).first()
    if hold is None:
        return False
    step = hold.escalation[hold.escalated]
    command = EscalateHold(
        hold=hold.id, step=hold.escalated, groups=step["groups"], tell=step["tell"]
    )
    try:
        result = submit_command(
            execution_id=hold.execution_id, command=command, actor=SYSTEM, source="sweeper"
        )
    except (Refused, StaleVersion):
        return False
    if result.outcome != "applied":
        # A worker holds the lease.  Drop the queued command, or each round would queue another.
        transaction.set_rollback(True)
        return False
    return True


def failing() -> dict[str, int]:
    """Return the failing parts of this process's sweep, each with its failed rounds in a row."""
    return dict(_failing)


_failing: Counter[str] = Counter()


def _run(path: str, hook: Callable[[], int]) -> int:
    try:
        done = hook()
    except Exception:
        _failing[path] += 1
        logger.exception("sweep hook %s failed (%s rounds in a row)", path, _failing[path])
        # A broken connection would fail the other parts of this round too.
        close_old_connections()
        return 0
    _failing.pop(path, None)
    return done
