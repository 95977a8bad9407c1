"""The journal's SQL as prepared statements: PostgreSQL plans each one once per connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

Row = tuple[Any, ...]

#: psycopg prepares a statement automatically after this many executions.  With the highest value,
#: only statements with `prepare=True` are prepared.
_NEVER_AUTOMATICALLY = 2**31
#: Prepared statements per connection; psycopg drops the least recently used ones.  A plan takes up
#: to 0.3 MB.
_MAX_PREPARED = 50


def execute(
    statement: str, parameters: Mapping[str, Any] | Sequence[Any] | None = None
) -> list[Row]:
    """Run a statement with server-side parameters and return its rows.

    It is prepared, unless HOLDPOINT_DB_TRANSACTION_POOLING is on. A statement without a result
    returns an empty list.
    """
    database = _open_connection()
    with database.wrap_database_errors, psycopg.Cursor(database.connection) as cursor:
        cursor.execute(statement, parameters, prepare=True)
        return [] if cursor.description is None else cursor.fetchall()


def _open_connection() -> BaseDatabaseWrapper:
    """Return Django's connection, open and with prepared statements enabled.

    Behind a pooler in transaction mode they stay disabled: the next statement may run in another
    session of PostgreSQL, which does not know them.
    """
    database = connections[DEFAULT_DB_ALIAS]
    database.ensure_connection()
    if database.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
        return database
    # Django disables prepared statements for its own queries (`prepare_threshold=None`).
    database.connection.prepare_threshold = _NEVER_AUTOMATICALLY
    database.connection.prepared_max = _MAX_PREPARED
    return database
