"""The only writer of speculative results; each change is one guarded statement.

A row goes RUNNING -> READY -> USED or DROPPED, or to FAILED if the tool failed and STOPPED if the
job was stopped.  Of two concurrent writers, the second finds no row to change and has no effect.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import (
    DurationField,
    Exists,
    ExpressionWrapper,
    F,
    FloatField,
    OuterRef,
    Q,
    QuerySet,
)
from django.db.models.expressions import Combinable
from django.db.models.functions import Extract, Now

from workflows import conf
from workflows.models import Execution, Speculation, TaskAttempt

from . import policy

#: Maximum age of a speculative result.
MAX_AGE_SECONDS = 3600

State = Speculation.State
_COUNTED = Q(counts=True, state__in=(State.USED, State.DROPPED))

_CLAIM = """
INSERT INTO workflows_speculation
    (execution_id, task_id, key, tool, behind, hold, state, reason, counts)
SELECT e.id, %(task)s, %(key)s, %(tool)s, %(behind)s, %(hold)s, 'RUNNING', '', true
  FROM workflows_execution e
 WHERE e.id = %(execution)s AND e.status IN ('PAUSED_FOR_REVIEW', 'AWAITING_AGENT')
ON CONFLICT (execution_id, key) DO UPDATE
   SET state = 'RUNNING', started_at = now(), settled_at = NULL, output = '', reason = '',
       behind = excluded.behind, hold = excluded.hold,
       wasted_ms = workflows_speculation.wasted_ms
           + CASE WHEN workflows_speculation.state = 'READY'
                  THEN workflows_speculation.duration_ms ELSE 0 END
 WHERE workflows_speculation.state = 'STOPPED'
    OR workflows_speculation.state = 'RUNNING'
       AND workflows_speculation.started_at < now() - make_interval(secs => %(patience)s)
    OR workflows_speculation.state = 'READY'
       AND workflows_speculation.started_at < now() - make_interval(secs => %(max_age)s)
RETURNING id, started_at
"""

_TALLIES = """
SELECT behind, tool, count(*) FILTER (WHERE 2 * used >= results),
       count(*) FILTER (WHERE 2 * used < results)
  FROM (SELECT behind, tool, count(*) FILTER (WHERE state = 'USED') AS used, count(*) AS results
          FROM workflows_speculation
         WHERE counts AND state IN ('USED', 'DROPPED')
           AND settled_at > now() - make_interval(secs => %(memory)s)
           AND behind = ANY(%(behinds)s) AND tool = ANY(%(tools)s)
         GROUP BY behind, tool, execution_id, hold) decisions
 GROUP BY behind, tool
"""

#: Results of one decision that are read, on average, to find the newest decisions.
_RESULTS_PER_DECISION = 20


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to compute one result, until another job takes over an overdue claim."""

    id: int
    since: datetime


# --- computing results ----------------------------------------------------------------------------


def claim(
    *,
    execution_id: int,
    task_id: str,
    key: str,
    tool: str,
    behind: str,
    patience: float,
    hold: str = "",
) -> Claim | None:
    """Claim a result; None if it exists, is being computed, or the execution no longer waits.

    Another job may take over a claim that is older than `patience` seconds.
    """
    parameters: dict[str, str | int | float] = {
        "execution": execution_id,
        "task": task_id,
        "key": key,
        "tool": tool,
        "behind": behind[:200],
        "hold": hold,
        "patience": patience,
        "max_age": MAX_AGE_SECONDS,
    }
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, parameters)
        row = cursor.fetchone()
    return Claim(*row) if row else None


def _claimed(claim: Claim) -> QuerySet[Speculation]:
    return Speculation.objects.filter(pk=claim.id, state=State.RUNNING, started_at=claim.since)


def save_result(claim: Claim, output: Any, logs: str, duration_ms: float) -> bool:
    """Store the result; returns False if the claim was lost."""
    text = json.dumps(output)
    changed = _claimed(claim).update(
        state=State.READY, output=text, logs=logs, duration_ms=round(duration_ms, 3)
    )
    return bool(changed)


def mark_failed(claim: Claim, reason: str, duration_ms: float) -> None:
    """Record that the tool failed; the execution will call it itself."""
    _claimed(claim).update(
        state=State.FAILED,
        reason=reason[:200],
        wasted_ms=F("wasted_ms") + duration_ms,
        settled_at=Now(),
    )


def abandon(claims: Iterable[Claim]) -> None:
    """Stop computing these results, and count the time until now as wasted."""
    for each in claims:
        _claimed(each).update(
            state=State.STOPPED, settled_at=Now(), wasted_ms=F("wasted_ms") + _running_ms()
        )


def _running_ms() -> Combinable:
    """The milliseconds since the computation of a result began."""
    age = ExpressionWrapper(Now() - F("started_at"), DurationField())
    return Extract(age, "epoch", output_field=FloatField()) * 1000.0


# --- using results --------------------------------------------------------------------------------


def rows_of_tasks(execution_id: int, task_ids: Collection[str]) -> list[Speculation]:
    """Return the results of these tasks that are running, ready or used.

    A used result is kept until the task's end is recorded, because its worker may die before.
    """
    rows = Speculation.objects.filter(execution_id=execution_id, task_id__in=task_ids)
    return list(rows.filter(Q(state__in=(State.RUNNING, State.READY)) | ~Q(output="")))


def take(rows: Iterable[Speculation]) -> frozenset[int]:
    """Mark results as used; returns the ids of those that still exist and are not too old."""
    fresh = Speculation.objects.filter(
        ~_is_too_old(), ~Q(output=""), state__in=(State.READY, State.USED)
    )
    with transaction.atomic():
        taken = frozenset(
            fresh.filter(pk__in=[row.pk for row in rows])
            .order_by("pk")
            .select_for_update()
            .values_list("pk", flat=True)
        )
        Speculation.objects.filter(pk__in=taken).update(state=State.USED, settled_at=Now())
    return taken


def _is_too_old() -> Q:
    max_age = timedelta(seconds=MAX_AGE_SECONDS)
    return Q(started_at__lte=Now() - max_age)


def drop(rows: Iterable[Speculation], reason: str) -> None:
    """Drop ready results and stop running ones, because the task runs with other inputs."""
    ids = [row.pk for row in rows]
    Speculation.objects.filter(pk__in=ids, state=State.READY).update(
        state=State.DROPPED,
        reason=reason,
        settled_at=Now(),
        wasted_ms=F("wasted_ms") + F("duration_ms"),
        output="",
        logs="",
    )
    Speculation.objects.filter(pk__in=ids, state=State.RUNNING).update(
        state=State.STOPPED,
        reason="the run was quicker",
        settled_at=Now(),
        wasted_ms=F("wasted_ms") + _running_ms(),
    )


def clean_up() -> int:
    """Drop results that can no longer be used, and return how many.  The sweeper calls this."""
    is_settled = Exists(
        TaskAttempt.objects.filter(
            execution=OuterRef("execution"), task_id=OuterRef("task_id"), settled=True
        )
    )
    is_over = Q(execution__status__in=("COMPLETED", "FAILED", "ABORTED"))
    open_rows = Speculation.objects.filter(state__in=(State.RUNNING, State.READY))
    unusable = open_rows.filter(is_over | _is_too_old() | Q(is_settled))
    # The updates below join no table, so they take keys.
    rows = Speculation.objects.filter(pk__in=list(unusable.values_list("pk", flat=True)[:1000]))
    ended: dict[str, Any] = {"settled_at": Now(), "output": "", "logs": ""}
    wasted = F("wasted_ms") + F("duration_ms")
    unused = "the run went on without it"
    ready = rows.filter(state=State.READY)
    done = ready.filter(_is_too_old()).update(
        state=State.STOPPED, reason="it was too old", wasted_ms=wasted, **ended
    )
    done += ready.update(state=State.DROPPED, reason=unused, wasted_ms=wasted, **ended)
    done += rows.filter(state=State.RUNNING).update(state=State.STOPPED, reason=unused, **ended)
    spent = Speculation.objects.exclude(state__in=(State.RUNNING, State.READY)).exclude(output="")
    return done + spent.filter(is_settled).update(output="", logs="")


# --- hits and misses ------------------------------------------------------------------------------


def _recent() -> QuerySet[Speculation]:
    memory = timedelta(seconds=conf.speculation_memory_seconds())
    return Speculation.objects.filter(_COUNTED, settled_at__gt=Now() - memory)


def _same_workflow(execution_id: int) -> Q:
    """Return a filter for all executions of the same workflow; ad-hoc plans count as one."""
    workflow = Execution.objects.values_list("workflow", flat=True).get(pk=execution_id)
    return Q(execution__workflow=workflow)


def stopped(execution_id: int) -> policy.Stopped | None:
    """Return the pause of speculation for the workflow of this execution, if there is one."""
    newest = _recent().filter(_same_workflow(execution_id)).order_by("-settled_at")
    window = conf.speculation_window()
    rows = newest.values_list("execution_id", "hold", "behind", "state", "settled_at")
    results = [
        ((execution, hold, behind), state == State.USED, when)
        for execution, hold, behind, state, when in rows[: window * _RESULTS_PER_DECISION]
        if when
    ]
    return policy.stopped(policy.decisions(results)[:window])


def tallies(pairs: Collection[tuple[str, str]]) -> dict[tuple[str, str], policy.Tally]:
    """Return hits and misses of each pair (`behind`, `tool`), over all executions."""
    behinds, tools = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
    parameters: dict[str, Any] = {
        "behinds": list(behinds),
        "tools": list(tools),
        "memory": conf.speculation_memory_seconds(),
    }
    with connection.cursor() as cursor:
        cursor.execute(_TALLIES, parameters)
        return {
            (behind, tool): policy.Tally(hits, misses)
            for behind, tool, hits, misses in cursor.fetchall()
        }


def pending(execution_id: int) -> Sequence[Speculation]:
    """Return the rows of an execution that are running or ready, without their results."""
    rows = Speculation.objects.filter(execution_id=execution_id).defer("output", "logs")
    return list(rows.filter(state__in=(State.RUNNING, State.READY)).order_by("id"))


def reset_statistics(execution_id: int) -> int:
    """Ignore earlier hits and misses of this execution's workflow; returns how many."""
    counted = Speculation.objects.filter(_COUNTED).filter(_same_workflow(execution_id))
    ids = list(counted.values_list("pk", flat=True))
    return Speculation.objects.filter(pk__in=ids).update(counts=False)
