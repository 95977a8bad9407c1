"""What is due, by the database's clock: marked as taken, so that one sweeper at a time has it."""

from __future__ import annotations

from dataclasses import dataclass

from workflows import conf

from . import sql as sql
from .statements import execute


def take_overdue(*, patience: float, limit: int = 500) -> list[int]:
    """Executions with work that nobody holds, marked as sent for; SKIP LOCKED, database clock."""
    parameters = {"patience": patience, "limit": limit, "lost_limit": conf.lost_claims_limit()}
    return [row[0] for row in execute(sql.OVERDUE, parameters)]


@dataclass(frozen=True, slots=True)
class GivenUp:
    """An execution that no worker may claim: `lost` of them in a row ended without a step."""

    execution_id: int
    version: int
    lost: int
    error: str


def given_up(*, limit: int = 100) -> list[GivenUp]:
    """Executions whose workers were lost too often; only reads."""
    parameters = {"limit": limit, "lost_limit": conf.lost_claims_limit()}
    return [GivenUp(*row) for row in execute(sql.GIVEN_UP, parameters)]


def take_due_reminders(*, limit: int = 50) -> list[tuple[str, int]]:
    """Open holds whose next reminder is due, with its number (from 1), marked as given.

    SKIP LOCKED, database clock; for the caller's transaction: what it does not commit is due again.
    """
    found = execute(sql.REMIND, {"limit": limit})
    return [(str(hold_id), int(number)) for hold_id, number in found]
