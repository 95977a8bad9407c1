"""The only writer of results that were worked out ahead, one guarded statement each.

A row goes RUNNING -> READY -> USED or DROPPED; FAILED when the tool did, STOPPED when it was given
up on the way.  Whoever comes second finds no row to change, and what he has lands nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Count, F, Q, QuerySet
from django.db.models.functions import Now

from workflows import conf
from workflows.models import Execution, Speculation

from . import policy

State = Speculation.State
_WEIGHED = Q(counts=True, state__in=(State.USED, State.DROPPED))

_CLAIM = """
INSERT INTO workflows_speculation
    (execution_id, task_id, key, tool, behind, state, reason, counts)
SELECT e.id, %(task)s, %(key)s, %(tool)s, %(behind)s, 'RUNNING', '', true
  FROM workflows_execution e
 WHERE e.id = %(execution)s AND e.status IN ('PAUSED_FOR_REVIEW', 'AWAITING_AGENT')
ON CONFLICT (execution_id, key) DO UPDATE
   SET state = 'RUNNING', started_at = now(), settled_at = NULL, output = '', reason = '',
       behind = excluded.behind,
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

_TAKE = """
UPDATE workflows_speculation SET state = 'USED', settled_at = now()
 WHERE id = ANY(%s) AND state IN ('READY', 'USED') AND output <> ''
   AND started_at > now() - make_interval(secs => %s)
RETURNING id
"""

_OVERTAKEN = """
UPDATE workflows_speculation
   SET state = 'STOPPED', reason = 'the run was quicker', settled_at = now(),
       wasted_ms = wasted_ms + extract(epoch FROM now() - started_at) * 1000
 WHERE id = ANY(%(ids)s) AND state = 'RUNNING'
"""

_TIDY = """
WITH ended AS (
    SELECT s.id,
           CASE WHEN s.state = 'READY' AND s.started_at < now() - make_interval(secs => %(age)s)
                THEN 'it was too old' ELSE 'the run went on without it' END AS reason
      FROM workflows_speculation s JOIN workflows_execution e ON e.id = s.execution_id
     WHERE s.state IN ('RUNNING', 'READY')
       AND (e.status IN ('COMPLETED', 'FAILED', 'ABORTED')
            OR s.started_at < now() - make_interval(secs => %(age)s)
            OR EXISTS (SELECT 1 FROM workflows_taskattempt t
                        WHERE t.execution_id = s.execution_id AND t.task_id = s.task_id
                          AND t.settled))
     LIMIT 1000
), dropped AS (
    UPDATE workflows_speculation s
       SET state = CASE WHEN s.state = 'READY' AND ended.reason <> 'it was too old'
                        THEN 'DROPPED' ELSE 'STOPPED' END,
           wasted_ms = s.wasted_ms + CASE WHEN s.state = 'READY' THEN s.duration_ms ELSE 0 END,
           reason = ended.reason, settled_at = now(), output = '', logs = ''
      FROM ended WHERE s.id = ended.id
    RETURNING s.id
), spent AS (
    UPDATE workflows_speculation s SET output = '', logs = ''
     WHERE s.output <> '' AND s.state NOT IN ('RUNNING', 'READY')
       AND EXISTS (SELECT 1 FROM workflows_taskattempt t
                    WHERE t.execution_id = s.execution_id AND t.task_id = s.task_id AND t.settled)
    RETURNING s.id
)
SELECT (SELECT count(*) FROM dropped) + (SELECT count(*) FROM spent)
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to work one result out; somebody else may take it over when it is overdue."""

    id: int
    since: datetime


# --- working out ----------------------------------------------------------------------------------


def claim(
    *, execution_id: int, task_id: str, key: str, tool: str, behind: str, patience: float
) -> Claim | None:
    """The claim on a result, or None: it is there, somebody is at it, or nobody is asked any more.

    After `patience` seconds a claim that was not redeemed is anybody's.
    """
    parameters: dict[str, str | int | float] = {
        "execution": execution_id,
        "task": task_id,
        "key": key,
        "tool": tool,
        "behind": behind[:200],
        "patience": patience,
        "max_age": conf.speculation_max_age_seconds(),
    }
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, parameters)
        found = cursor.fetchone()
    return Claim(*found) if found else None


def _mine(claim: Claim) -> QuerySet[Speculation]:
    return Speculation.objects.filter(pk=claim.id, state=State.RUNNING, started_at=claim.since)


def save_result(claim: Claim, output: Any, logs: str, duration_ms: float) -> bool:
    """Put the result aside; False when it is not wanted any more."""
    text = json.dumps(output)
    changed = _mine(claim).update(
        state=State.READY, output=text, logs=logs, duration_ms=round(duration_ms, 3)
    )
    return bool(changed)


def mark_failed(claim: Claim, reason: str, duration_ms: float) -> None:
    """The tool gave no result; the real run will ask it itself."""
    _mine(claim).update(
        state=State.FAILED,
        reason=reason[:200],
        wasted_ms=F("wasted_ms") + duration_ms,
        settled_at=Now(),
    )


def abandon(claims: Iterable[Claim]) -> None:
    """Nobody works on these any more; the time until now was wasted."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "UPDATE workflows_speculation SET state = 'STOPPED', settled_at = now(),"
            " wasted_ms = wasted_ms + extract(epoch FROM now() - started_at) * 1000"
            " WHERE id = %s AND state = 'RUNNING' AND started_at = %s",
            [(each.id, each.since) for each in claims],
        )


# --- taking ---------------------------------------------------------------------------------------


def rows_of_tasks(execution_id: int, task_ids: Collection[str]) -> list[Speculation]:
    """What is there for these tasks, or being worked out.

    What was used is still there until the task's end is recorded: a worker may die in between.
    """
    rows = Speculation.objects.filter(execution_id=execution_id, task_id__in=task_ids)
    return list(rows.filter(Q(state__in=(State.RUNNING, State.READY)) | ~Q(output="")))


def take(rows: Iterable[Speculation]) -> frozenset[int]:
    """Make them the results of their tasks; ids of those that are neither gone nor too old."""
    ids = [row.pk for row in rows]
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, [ids, conf.speculation_max_age_seconds()])
        return frozenset(found for (found,) in cursor.fetchall())


def drop(rows: Iterable[Speculation], reason: str) -> None:
    """The task runs with something else: what waits is dropped, what is under way is unwanted."""
    ids = [row.pk for row in rows]
    waiting = Speculation.objects.filter(pk__in=ids, state=State.READY)
    waiting.update(
        state=State.DROPPED,
        reason=reason,
        settled_at=Now(),
        wasted_ms=F("wasted_ms") + F("duration_ms"),
        output="",
        logs="",
    )
    with connection.cursor() as cursor:
        cursor.execute(_OVERTAKEN, {"ids": ids})


def clean_up() -> int:
    """Hook of the sweeper: drop what nobody can use any more, keep the count of it."""
    with connection.cursor() as cursor:
        cursor.execute(_TIDY, {"age": conf.speculation_max_age_seconds()})
        return int(cursor.fetchone()[0])


# --- weighing -------------------------------------------------------------------------------------


def _remembered() -> QuerySet[Speculation]:
    memory = timedelta(seconds=conf.speculation_memory_seconds())
    return Speculation.objects.filter(_WEIGHED, settled_at__gt=Now() - memory)


def _same_workflow(execution_id: int) -> Q:
    """Rows of every execution of the same workflow; plans without one count together."""
    workflow = Execution.objects.values_list("workflow", flat=True).get(pk=execution_id)
    return Q(execution__workflow=workflow)


def stopped(execution_id: int) -> policy.Stopped | None:
    """Whether work ahead has stopped itself for the workflow of this execution."""
    last = _remembered().filter(_same_workflow(execution_id)).order_by("-settled_at")
    found = last.values_list("state", "settled_at")[: conf.speculation_window()]
    return policy.stopped([(state == State.USED, when) for state, when in found if when])


def tallies(pairs: Collection[tuple[str, str]]) -> dict[tuple[str, str], policy.Tally]:
    """Hits and misses of each pair (what was held, the tool behind it), in every execution."""
    behinds, tools = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
    rows = _remembered().filter(behind__in=behinds, tool__in=tools).values_list("behind", "tool")
    used, dropped = (
        Count("id", filter=Q(state=State.USED)),
        Count("id", filter=~Q(state=State.USED)),
    )
    counted = rows.annotate(used=used, dropped=dropped).order_by()
    return {(behind, tool): policy.Tally(hits, misses) for behind, tool, hits, misses in counted}


def pending(execution_id: int) -> Sequence[Speculation]:
    """What is ready or being worked out for one execution, without the results."""
    rows = Speculation.objects.filter(execution_id=execution_id).defer("output", "logs")
    return list(rows.filter(state__in=(State.RUNNING, State.READY)).order_by("id"))


def reset_statistics(execution_id: int) -> int:
    """Hits and misses of this execution's workflow are not weighed any more; how many."""
    weighed = Speculation.objects.filter(_WEIGHED).filter(_same_workflow(execution_id))
    ids = list(weighed.values_list("pk", flat=True))
    return Speculation.objects.filter(pk__in=ids).update(counts=False)
