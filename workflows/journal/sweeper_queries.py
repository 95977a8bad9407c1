"""Queries of the sweeper: overdue and unclaimable executions, due reminders.

Each row is claimed by one sweeper; times are compared by the database's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workflows import conf

from .prepared_statements import execute
from .sql import LOST_CLAIMS

#: Executions with work, without a lease, and without a recent job.
_IS_OVERDUE = """
       (status IN ('PENDING', 'RUNNING') OR queued_commands > 0)
       AND dispatched_at < now() - make_interval(secs => %(patience)s)
       AND (lease_until IS NULL OR lease_until < now())
       AND LOST < %(lost_limit)s
       AND (wake_at IS NULL OR wake_at <= now() OR queued_commands > 0)
""".replace("LOST", LOST_CLAIMS)

#: Executions that no worker may claim any more.
_IS_UNCLAIMABLE = """
       (status IN ('PENDING', 'RUNNING') OR queued_commands > 0)
       AND (lease_until IS NULL OR lease_until < now())
       AND LOST >= %(lost_limit)s
""".replace("LOST", LOST_CLAIMS)

_OVERDUE = """
UPDATE workflows_execution SET dispatched_at = now()
 WHERE id IN (
    SELECT id FROM workflows_execution
     WHERE IS_OVERDUE
     ORDER BY dispatched_at
     LIMIT %(limit)s
     FOR UPDATE SKIP LOCKED)
RETURNING id
""".replace("IS_OVERDUE", _IS_OVERDUE)

#: With the number of lost workers and the last worker's exception, if it was recorded.
_UNCLAIMABLE = """
SELECT id, version, LOST, CASE WHEN lease_until IS NULL THEN error ELSE '' END
  FROM workflows_execution
 WHERE IS_UNCLAIMABLE
 ORDER BY dispatched_at
 LIMIT %(limit)s
""".replace("IS_UNCLAIMABLE", _IS_UNCLAIMABLE).replace("LOST", LOST_CLAIMS)

#: Marks due reminders as sent; the caller notifies people in the same transaction.
_DUE_REMINDERS = """
UPDATE workflows_hold AS hold
   SET reminded = hold.reminded + 1,
       reminds_at = hold.reminds_at + make_interval(secs =>
           (hold.reminders->>(hold.reminded + 1))::float8
           - (hold.reminders->>hold.reminded)::float8)
 WHERE hold.id IN (
    SELECT id FROM workflows_hold
     WHERE status = 'OPEN' AND reminds_at <= now()
     ORDER BY reminds_at
     LIMIT %(limit)s
     FOR UPDATE SKIP LOCKED)
RETURNING hold.id, hold.reminded
"""

#: Whether a hold's undo time, deadline, reminder or escalation step is due; four index reads.
_TIMER_IS_DUE = """coalesce(least(
    (SELECT min(undo_until) FROM workflows_hold WHERE undo_until IS NOT NULL),
    (SELECT min(expires_at) FROM workflows_hold
      WHERE status = 'OPEN' AND expires_at IS NOT NULL),
    (SELECT min(reminds_at) FROM workflows_hold
      WHERE status = 'OPEN' AND reminds_at IS NOT NULL),
    (SELECT min(escalates_at) FROM workflows_hold
      WHERE status = 'OPEN' AND escalates_at IS NOT NULL)) <= now(), false)"""

_DUE = f"""SELECT
EXISTS (SELECT FROM workflows_execution WHERE {_IS_OVERDUE}),
EXISTS (SELECT FROM workflows_execution WHERE {_IS_UNCLAIMABLE}),
{_TIMER_IS_DUE},
(SELECT coalesce(max(id), 0) FROM workflows_executionevent)
"""  # noqa: S608 - constants

_NEXT_UNDO_END = """
SELECT extract(epoch FROM min(undo_until) - statement_timestamp())::float8
  FROM workflows_hold WHERE undo_until > statement_timestamp()
"""

#: Remote calls of the runs that rest until one of them ends.
_REMOTE_CALLS = """
SELECT id, call->>'handle'
  FROM workflows_execution, jsonb_path_query(state, '$.tasks.*.remote') AS call
 WHERE status = 'RUNNING' AND wake_at > now() AND call->>'runner' = %(runner)s
"""

_WAKE = """
UPDATE workflows_execution SET wake_at = NULL, dispatched_at = now()
 WHERE id = ANY(%(ids)s::bigint[]) AND status = 'RUNNING' AND wake_at > now()
RETURNING id
"""

#: Keys `execution:task:attempt` of attempts that have ended, or whose execution has.
_ENDED_ATTEMPTS = """
SELECT key
  FROM unnest(%(keys)s::text[]) AS key
  LEFT JOIN workflows_execution AS execution ON execution.id = split_part(key, ':', 1)::bigint
 WHERE execution.id IS NULL OR execution.status IN ('COMPLETED', 'FAILED', 'ABORTED')
    OR EXISTS (
        SELECT FROM workflows_taskattempt AS ended
         WHERE ended.execution_id = execution.id AND ended.task_id = split_part(key, ':', 2)
           AND ended.attempt = split_part(key, ':', 3)::int)
"""


@dataclass(frozen=True, slots=True)
class Due:
    """The parts of a round that have something to do, and the id of the newest event."""

    overdue: bool
    unclaimable: bool
    timer: bool
    newest_event: int


def what_is_due(*, patience: float) -> Due:
    """Read what a round of the sweeper has to do, in one statement."""
    parameters = {"patience": patience, "lost_limit": conf.lost_claims_limit()}
    [row] = execute(_DUE, parameters)
    return Due(*row)


def seconds_to_undo_end() -> float | None:
    """Return the time until the next undo period ends, or None if there is none."""
    [(seconds,)] = execute(_NEXT_UNDO_END)
    return None if seconds is None else float(seconds)


def take_overdue(*, patience: float, limit: int = 500) -> list[int]:
    """Return executions with work and no lease, and mark them as enqueued (SKIP LOCKED)."""
    parameters = {"patience": patience, "limit": limit, "lost_limit": conf.lost_claims_limit()}
    return [row[0] for row in execute(_OVERDUE, parameters)]


@dataclass(frozen=True, slots=True)
class UnclaimableExecution:
    """An execution that no worker may claim: `lost` workers in a row died without a step."""

    execution_id: int
    version: int
    lost: int
    error: str


def unclaimable_executions(*, limit: int = 100) -> list[UnclaimableExecution]:
    """Return the executions whose workers were lost too often."""
    parameters = {"limit": limit, "lost_limit": conf.lost_claims_limit()}
    return [UnclaimableExecution(*row) for row in execute(_UNCLAIMABLE, parameters)]


def take_due_reminders(*, limit: int = 50) -> list[tuple[str, int]]:
    """Return open holds with a due reminder and its number (from 1), and mark it as sent.

    Uses SKIP LOCKED in the caller's transaction; after a rollback the reminder is due again.
    """
    rows = execute(_DUE_REMINDERS, {"limit": limit})
    return [(str(hold_id), int(number)) for hold_id, number in rows]


def remote_calls(runner: str) -> list[tuple[int, str]]:
    """Return the executions that rest until a call of this remote runner ends, with the handles."""
    rows = execute(_REMOTE_CALLS, {"runner": runner})
    return [(int(execution_id), str(handle)) for execution_id, handle in rows]


def wake(execution_ids: Sequence[int]) -> list[int]:
    """End the rest of these executions, and return those that rested; the caller enqueues jobs."""
    if not execution_ids:
        return []
    return [int(row[0]) for row in execute(_WAKE, {"ids": list(execution_ids)})]


def ended_attempts(keys: Sequence[str]) -> list[str]:
    """Return the keys of attempts (`execution:task:attempt`) whose result nobody waits for."""
    if not keys:
        return []
    return [str(row[0]) for row in execute(_ENDED_ATTEMPTS, {"keys": list(keys)})]
