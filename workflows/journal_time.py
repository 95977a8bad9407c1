"""What is due, by the database's clock: marked as taken, so that one sweeper at a time has it."""

from __future__ import annotations

from . import journal_sql as sql
from .statements import execute


def take_overdue(*, patience: float, limit: int = 500) -> list[int]:
    """Executions with work that nobody holds, marked as sent for; SKIP LOCKED, database clock."""
    return [row[0] for row in execute(sql.OVERDUE, {"patience": patience, "limit": limit})]


def take_due_reminders(*, limit: int = 50) -> list[tuple[str, int]]:
    """Open holds whose next reminder is due, with its number (from 1), marked as given.

    SKIP LOCKED, database clock; for the caller's transaction: what it does not commit is due again.
    """
    found = execute(sql.REMIND, {"limit": limit})
    return [(str(hold_id), int(number)) for hold_id, number in found]
