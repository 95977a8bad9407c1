"""Statements written by hand: prepared once per connection, waited for at once or later."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, NotSupportedError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.abc import PQGen
from psycopg.waiting import Wait

Row = tuple[Any, ...]
Parameters = Mapping[str, Any] | Sequence[Any]

_NEVER_BY_ITSELF = 2**31
#: How many plans a session keeps, those that were used last; one takes up to 0.3 MB.
_PLANS = 50


def execute(statement: str, parameters: Parameters | None = None) -> list[Row]:
    """Run one statement with server-side parameters, prepared: PostgreSQL plans it once."""
    return Sent(statement, parameters).rows()


def ask(statement: str, parameters: Parameters | None = None) -> list[Row]:
    """`execute` for what takes the place of a queryset: it is noted as Django notes its own."""
    database = connections[DEFAULT_DB_ALIAS]
    begun = time.monotonic()
    try:
        rows = execute(statement, parameters)
    except NotSupportedError:
        # A migration changed the type of what a kept plan answers; a new session has none.
        if database.in_atomic_block:
            raise
        _end_session(database)
        rows = execute(statement, parameters)
    if database.queries_logged:
        text = with_values(statement, parameters) if parameters else statement
        database.queries_log.append({"sql": text, "time": f"{time.monotonic() - begun:.3f}"})
    return rows


def with_values(statement: str, parameters: Parameters) -> str:
    """The statement's text with its parameters in it, quoted."""
    database = connections[DEFAULT_DB_ALIAS]
    database.ensure_connection()
    return psycopg.ClientCursor(database.connection).mogrify(statement, parameters)


class Sent:
    """A statement on its way: PostgreSQL works on it while its sender does something else.

    Whatever else is asked on the same connection waits for it first, through Django's hook for
    statements; so only who began it has to know of it.  A transaction cannot begin meanwhile.
    """

    def __init__(self, statement: str, parameters: Parameters | None = None) -> None:
        self._database = database = _ready()
        self._rows: list[Row] = []
        self._error: BaseException | None = None
        self._has_landed = False
        with database.wrap_database_errors:
            self._cursor = _Cursor(database.connection)
            self._cursor.send(statement, parameters)
        # The first of all: `connection.execute_wrapper` takes its own away from the end.
        database.execute_wrappers.insert(0, self)

    def rows(self) -> list[Row]:
        """What it answered, once it has; [] if it answers nothing.  Raises what it failed with."""
        self._wait()
        if self._error is not None:
            raise self._error
        return self._rows

    def _wait(self) -> None:
        if self._has_landed:
            return
        self._has_landed = True
        self._database.execute_wrappers.remove(self)
        try:
            with self._database.wrap_database_errors, self._cursor as cursor:
                cursor.finish()
                self._rows = cursor.fetchall() if cursor.description else []
        except BaseException as error:
            self._error = error
            if not isinstance(error, Exception):
                raise

    def __call__(self, run: Callable[..., Any], *asked: Any) -> Any:
        """Django's hook around a statement; see `connection.execute_wrapper`."""
        self._wait()
        return run(*asked)


def _end_session(database: BaseDatabaseWrapper) -> None:
    """For good: a pool does not lend it again."""
    database.connection.close()
    database.close()


class _Cursor(psycopg.Cursor[Row]):
    """A cursor whose statement is sent now and waited for later.

    psycopg's operations are generators that say what they wait for on the socket.  This one stops
    at the first wait: a prepared statement is with the server by then.
    """

    def send(self, statement: str, parameters: Parameters | None) -> None:
        self._operation = self._execute_gen(statement, parameters, prepare=True)
        self._waits = next(self._operation, None)

    def finish(self) -> None:
        if self._waits is not None:
            with self._conn.lock:
                self._conn.wait(self._rest(self._waits))

    def _rest(self, waits: Wait) -> PQGen[None]:
        try:
            while True:
                waits = self._operation.send((yield waits))
        except StopIteration:
            return


def _ready() -> BaseDatabaseWrapper:
    """Django's connection, open, with no statement under way."""
    database = connections[DEFAULT_DB_ALIAS]
    database.ensure_connection()
    for under_way in [each for each in database.execute_wrappers if isinstance(each, Sent)]:
        under_way._wait()
    # Django switches preparing off; this lets it happen for those who ask, and for nobody else.
    database.connection.prepare_threshold = _NEVER_BY_ITSELF
    database.connection.prepared_max = _PLANS
    return database
