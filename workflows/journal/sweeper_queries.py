"""Queries of the sweeper: overdue and unclaimable executions, due reminders.

Each row is claimed by one sweeper; times are compared by the database's clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from workflows import conf

from . import sql as sql
from .prepared_statements import execute


def take_overdue(*, patience: float, limit: int = 500) -> list[int]:
    """Return executions with work and no lease, and mark them as enqueued (SKIP LOCKED)."""
    parameters = {"patience": patience, "limit": limit, "lost_limit": conf.lost_claims_limit()}
    return [row[0] for row in execute(sql.OVERDUE, parameters)]


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
    return [UnclaimableExecution(*row) for row in execute(sql.UNCLAIMABLE, parameters)]


def take_due_reminders(*, limit: int = 50) -> list[tuple[str, int]]:
    """Return open holds with a due reminder and its number (from 1), and mark it as sent.

    Uses SKIP LOCKED in the caller's transaction; after a rollback the reminder is due again.
    """
    rows = execute(sql.REMIND, {"limit": limit})
    return [(str(hold_id), int(number)) for hold_id, number in rows]
