"""The sweeper: sends for workers again, and lets time decide what time is to decide.

PostgreSQL is the outbox: an execution with work and no live lease is put on the queue again, at the
latest after `sweep_seconds`.  All clocks are the database's.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.db import close_old_connections, transaction
from django.db.models import DurationField, ExpressionWrapper, Min, QuerySet
from django.db.models.functions import Now
from django.utils.module_loading import import_string

from workflows import conf
from workflows.common.crashpoints import crashpoint
from workflows.engine.commands import EscalateHold, ExpireHold
from workflows.engine.decide import Refused
from workflows.engine.ports import StaleVersion
from workflows.journal import due as journal_due
from workflows.models import Hold
from workflows.planning.learning import unlearned

from . import dispatch
from .services import fail_lost_execution, submit_command

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one round did."""

    sent: int
    hooks: int


def sweep() -> Sweep:
    """One round: work that was lost goes back on the queue, hooks (hold timers) run.

    A hook that fails is logged, is named by `failing` until it succeeds, and does not keep the
    others from running.
    """
    overdue = journal_due.take_overdue(patience=conf.sweep_seconds())
    if overdue:
        crashpoint("sweep.marked")
    for execution_id in overdue:
        dispatch.enqueue(dispatch.ADVANCE, execution_id)
    if overdue:
        logger.info("sent again for %s executions", len(overdue))
    _run("lost executions", fail_lost_executions)
    done = _run("agent holds", expire_agent_holds)
    done += _run("escalation", escalate_due)
    _run("learning", send_learning)
    for path in settings.HOLDPOINT.get("sweep_hooks", ()):
        done += _run(path, import_string(path))
    return Sweep(sent=len(overdue), hooks=done)


def fail_lost_executions() -> int:
    """End the executions that lost too many workers in a row: another one would be lost too."""
    done = 0
    for each in journal_due.given_up():
        done += fail_lost_execution(
            execution_id=each.execution_id, version=each.version, lost=each.lost, error=each.error
        )
        logger.error(
            "gave up execution %s: it lost %s workers in a row", each.execution_id, each.lost
        )
    return done


def seconds_to_next() -> float:
    """How long to wait for the next round: a decision's time to undo ends to the second."""
    rows = Hold.objects.filter(undo_until__isnull=False, undo_until__gt=Now())
    found = rows.aggregate(left=ExpressionWrapper(Min("undo_until") - Now(), DurationField()))
    left = found["left"].total_seconds() if found["left"] is not None else conf.sweep_seconds()
    return min(conf.sweep_seconds(), max(0.0, left))


def send_learning() -> int:
    """Have the tool graph learn from ended executions, when the low queue has room.

    Not sent by the run itself: a job per execution would cost as much as a short execution.
    """
    if dispatch.queue_length("low"):
        return 0
    ids = unlearned()
    for execution_id in ids:
        dispatch.enqueue(dispatch.LEARN, execution_id, queue="low")
    return len(ids)


def expire_agent_holds() -> int:
    """Holds that an external agent left to time; people's holds are a hook of reviews."""
    late = Hold.objects.filter(
        status=Hold.Status.OPEN, decider="agent", expires_at__lte=Now()
    ).values_list("id", "execution_id")[:500]
    done = 0
    for hold_id, execution_id in late:
        try:
            submit_command(
                execution_id=execution_id,
                command=ExpireHold(hold=hold_id),
                actor="system",
                source="sweeper",
            )
        except (Refused, StaleVersion):
            continue  # decided in the meantime
        done += 1
    return done


def escalate_due(limit: int = 200) -> int:
    """Take the steps that are due of escalation chains; how many.

    Each is taken once: one sweeper at a time has the run, and the run knows how far its hold is.
    """
    done, looked_at = 0, [""]
    while len(looked_at) <= limit:
        with transaction.atomic():
            # The run first, as a decision does it: neither waits for the other with a lock in hand.
            rows = _to_escalate().exclude(pk__in=looked_at).order_by("escalates_at")
            locked = rows.select_related("execution").select_for_update(
                skip_locked=True, of=("execution",), no_key=True
            )
            found = locked.only("id", "execution__id").first()
            if found is None:
                return done
            looked_at.append(found.pk)
            done += _escalate(found.pk)
    return done


def _to_escalate() -> QuerySet[Hold]:
    return Hold.objects.filter(status=Hold.Status.OPEN, escalates_at__lte=Now())


def _escalate(hold_id: str) -> bool:
    """Take one step, in the caller's transaction, which holds the run."""
    # What the lock was waited for may have changed the hold.
    hold = _to_escalate().filter(pk=hold_id).first()
    if hold is None:
        return False
    step = hold.escalation[hold.escalated]
    command = EscalateHold(
        hold=hold.id, step=hold.escalated, groups=step["groups"], tell=step["tell"]
    )
    try:
        result = submit_command(
            execution_id=hold.execution_id, command=command, actor="system", source="sweeper"
        )
    except (Refused, StaleVersion):
        return False
    if result.outcome != "applied":
        # A worker is on the run for a moment: not queued, so that it is not queued again.
        transaction.set_rollback(True)
        return False
    return True


def failing() -> dict[str, int]:
    """Rounds in a row that each failing part of this process's sweep has failed, by its name."""
    return dict(_failing)


_failing: Counter[str] = Counter()


def _run(path: str, hook: Callable[[], int]) -> int:
    try:
        done = hook()
    except Exception:
        _failing[path] += 1
        logger.exception("sweep hook %s failed (%s rounds in a row)", path, _failing[path])
        # A lost session would fail everything that follows in this round.
        close_old_connections()
        return 0
    _failing.pop(path, None)
    return done
