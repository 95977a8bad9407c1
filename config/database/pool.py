"""Reset of pooled database connections between requests (`OPTIONS["pool"]` of the web role)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import Connection

#: DISCARD ALL without DISCARD PLANS: a pooled connection keeps its prepared plans.
RESET = (
    "RESET ALL; RESET SESSION AUTHORIZATION; UNLISTEN *; CLOSE ALL; DISCARD TEMP;"
    " DISCARD SEQUENCES; SELECT pg_advisory_unlock_all()"
)


def reset_connection(connection: Connection[Any]) -> None:
    """Remove the state that a request left: settings, listeners, locks, temporary tables.

    The pool calls this in a thread of its own and closes the connection if it fails.
    """
    connection.autocommit = True
    connection.execute(RESET)
