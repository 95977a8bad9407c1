"""Recognize an unavailable database and a concurrent change, as opposed to other failures."""

import psycopg
import psycopg_pool
from django.db import IntegrityError, InterfaceError, OperationalError

#: Value of the `Retry-After` header.
RETRY_SECONDS = 2
#: The server ended the session, is starting or stopping, or has no free session, disk or memory.
_TRANSIENT_STATES = frozenset({"57P01", "57P02", "57P03", "57P05", "53100", "53200", "53300"})
_POOL_ERRORS = (psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed, psycopg_pool.TooManyRequests)


def is_database_unavailable(error: BaseException | None) -> bool:
    """Whether `error` was raised because the database could not be used."""
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    cause = error.__cause__
    if isinstance(cause, _POOL_ERRORS):
        return True
    if not isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    # Without a code no answer came from the server: the connection broke.
    state = cause.sqlstate
    return state is None or state.startswith("08") or state in _TRANSIENT_STATES


def is_concurrent_change(error: BaseException | None) -> bool:
    """Whether another request added the same row, or deleted a row that this one refers to.

    Each request checks both before it writes, so that only requests at the same time get here.
    """
    conflicts = psycopg.errors.UniqueViolation | psycopg.errors.ForeignKeyViolation
    return isinstance(error, IntegrityError) and isinstance(error.__cause__, conflicts)
