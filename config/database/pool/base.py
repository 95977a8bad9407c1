"""The backend: Django's own, with a pool that gets over a restart of the server and keeps nothing.

What Django's pool does not do: when the server was restarted, it tries one dead session after the
other with growing waits; and what a request left in a session (SET, LISTEN, advisory locks,
temporary tables) is there for the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.postgresql import base
from psycopg import Connection, Error
from psycopg_pool import ConnectionPool

#: What DISCARD ALL does, but for plans: those of triggers are what a warm session is for.
FORGET = (
    "RESET ALL; RESET SESSION AUTHORIZATION; UNLISTEN *; CLOSE ALL; DISCARD TEMP;"
    " DISCARD SEQUENCES; SELECT pg_advisory_unlock_all()"
)


class DatabaseWrapper(base.DatabaseWrapper):
    """A thread's way to the process's sessions; `OPTIONS["pool"]` goes to `ConnectionPool`."""

    # The stubs leave out what Django's own pool is made of.
    _connection_pools: dict[str, ConnectionPool[Connection[Any]]]
    _configure_connection: Callable[[Connection[Any]], Any]

    @property
    def pool(self) -> ConnectionPool[Connection[Any]] | None:
        """The process's pool, made when it is first needed; None where no database is named."""
        options = self.settings_dict["OPTIONS"].get("pool")
        if self.alias == NO_DB_ALIAS or not options:
            return None
        pools = self._connection_pools
        # Two threads may both make one: the first is kept, and neither is open yet.
        return pools.get(self.alias) or pools.setdefault(self.alias, self._new_pool(options))

    def _new_pool(self, options: dict[str, Any]) -> ConnectionPool[Connection[Any]]:
        return ConnectionPool(
            kwargs=self.get_connection_params() | {"autocommit": True},
            open=False,
            configure=self._configure_connection,
            check=alive,
            reset=_forgetting(self._configure_connection),
            **options,
        )


def alive(session: Connection[Any]) -> None:
    """Raise when the server has ended this session; then the idle ones are looked through as well.

    One round trip before each use, so that a request never meets a session of a server that was
    restarted.
    """
    try:
        ConnectionPool.check_connection(session)
    except Error:
        if isinstance(pool := session._pool, ConnectionPool):
            pool.check()
        raise


def _forgetting(configure: Callable[[Connection[Any]], Any]) -> Callable[[Connection[Any]], None]:
    """What is done to a session between two requests, in a thread of the pool."""

    def reset(session: Connection[Any]) -> None:
        session.autocommit = True
        session.execute(FORGET)
        configure(session)  # the time zone that RESET took away, if the server has another one

    return reset
