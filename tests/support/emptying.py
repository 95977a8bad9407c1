"""Emptying the database between transactional tests: only what has rows, by DELETE.

Django empties with one TRUNCATE of all tables, which makes several files anew for each of them
(150 ms for ours, most of them empty) and asks for locks that nobody else may share: a worker that
outlives its test then ends in a deadlock.  Kinds of rows and permissions stay: they are the same
for every test, and Django would make them again each time.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management.commands import flush
from django.db import OperationalError, transaction
from django.db.backends.postgresql.operations import DatabaseOperations
from psycopg.errors import DeadlockDetected

KEPT = {"django_content_type", "auth_permission"}
#: A worker that is still at it may write again behind our back.
ROUNDS = 20


def install(patch: pytest.MonkeyPatch) -> None:
    """Let Django empty in this way for as long as the patch holds."""
    patch.setattr(DatabaseOperations, "sql_flush", sql_flush)
    patch.setattr(DatabaseOperations, "execute_sql_flush", execute_sql_flush)
    patch.setattr(flush, "emit_post_migrate_signal", lambda *about: None)


def sql_flush(self: Any, style: Any, tables: list[str], **options: Any) -> list[str]:
    """The tables' names, quoted: what `execute_sql_flush` below is called with."""
    if options.get("reset_sequences"):
        raise ValueError("no test wants ids that begin at 1 again; ask the rows for theirs")
    return [self.quote_name(table) for table in tables if table not in KEPT]


def execute_sql_flush(self: Any, tables: list[str]) -> None:
    """Delete every row; gives way and begins again where a worker stands in the way."""
    for left in reversed(range(ROUNDS)):
        try:
            with (
                transaction.atomic(using=self.connection.alias),
                self.connection.cursor() as cursor,
            ):
                if not _delete(cursor, tables):
                    return
        except OperationalError as error:
            if left == 0 or not isinstance(error.__cause__, DeadlockDetected):
                raise
    raise AssertionError(f"somebody writes into the tests' tables all the time: {ROUNDS} rounds")


def _delete(cursor: Any, tables: list[str]) -> list[str]:
    """Tables that had rows.

    In the replica mode of a session ordinary triggers and foreign keys rest, so that append-only
    tables can be emptied too, in any order; only a superuser can ask for it.
    """
    questions = (f"SELECT '{name}' WHERE EXISTS (SELECT FROM {name})" for name in tables)
    cursor.execute(" UNION ALL ".join(questions))
    filled = [name for (name,) in cursor.fetchall()]
    if filled:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("SET LOCAL deadlock_timeout = '100ms'")  # ours notices first
        cursor.execute("; ".join(f"DELETE FROM {name}" for name in filled))
    return filled
