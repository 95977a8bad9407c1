"""Read the events of all executions as one log without skipping uncommitted entries.

PostgreSQL assigns event ids in order, but entries become visible in commit order: a reader that
has read up to id 90 would miss id 89 if it is committed later.  A reader therefore takes a bound
first, and trusts it once every transaction that may hold a lower id has ended.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from django.db import connection

_NEWEST = "SELECT coalesce(max(id), 0) FROM workflows_executionevent"
#: xid8 values do not wrap around.
_ENDS = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
#: Number of open transactions below a number, without transactions of other databases on the
#: server.  A transaction holds the lock on its own number until its writes are visible; one that
#: is not in the lock table counts as a transaction of this database.
_OPEN_BELOW = """
SELECT count(*)
  FROM pg_snapshot_xip(pg_current_snapshot()) AS open(number)
 WHERE number::text::bigint < %s
   AND NOT EXISTS (
    SELECT FROM pg_locks AS lock
      JOIN pg_stat_activity AS backend ON backend.pid = lock.pid
      JOIN pg_database AS base ON base.oid = backend.datid
     WHERE lock.locktype = 'transactionid' AND lock.mode = 'ExclusiveLock' AND lock.granted
       AND lock.transactionid::text::bigint = number::text::bigint & 4294967295
       AND base.datname <> current_database())
"""


@dataclass(frozen=True, slots=True)
class Bound:
    """All entries up to `entry` are visible once no transaction below `transaction` is open."""

    entry: int
    transaction: int


def newest_entry() -> int:
    """Return the id of the newest visible entry, 0 if there is none."""
    return _number(_NEWEST)


def bound_of(entry: int) -> Bound:
    """Return the bound of the newest visible entry.

    This works because the journal updates the execution first: a transaction gets its number
    before it requests the ids of its entries.
    """
    return Bound(entry=entry, transaction=_number(_ENDS))


def is_complete(bound: Bound) -> bool:
    """Return whether every transaction that could add entries up to the bound has ended."""
    return _number(_OPEN_BELOW, bound.transaction) == 0


class ReadWatermark:
    """The highest event id up to which every entry is visible."""

    def __init__(self) -> None:
        self._reached = 0
        self._next: Bound | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether open transactions hide newer entries."""
        return self._next is not None

    def advance(self, *, patience: float = 0.05) -> int:
        """Advance and return the watermark; wait up to `patience` seconds for open transactions."""
        if self._next is None:
            entry = newest_entry()
            if entry == self._reached:  # one statement while nothing happens
                return entry
            self._next = bound_of(entry)
        end = time.monotonic() + patience
        while not is_complete(self._next):
            if time.monotonic() > end:
                return self._reached
            time.sleep(0.005)
        self._reached, self._next = self._next.entry, None
        return self._reached


def _number(statement: str, *parameters: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        return int(cursor.fetchone()[0])
