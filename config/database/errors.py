"""Telling a database that cannot be asked just now from a statement that is wrong."""

import psycopg
import psycopg_pool
from django.db import InterfaceError, OperationalError

#: What `Retry-After` says.
RETRY_SECONDS = 2
#: The server ends the session, is starting or stopping, or has as many as it takes.
_PASSING = frozenset({"57P01", "57P02", "57P03", "57P05", "53300"})
_POOL = (psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed, psycopg_pool.TooManyRequests)


def database_is_away(error: BaseException | None) -> bool:
    """Whether `error` says that there is no session to ask, and not what was asked."""
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    cause = error.__cause__
    if isinstance(cause, _POOL):
        return True
    if not isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    # Without a code nothing came back from the server: the connection broke.
    state = cause.sqlstate
    return state is None or state.startswith("08") or state in _PASSING
