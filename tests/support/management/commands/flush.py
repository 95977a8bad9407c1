"""Empty the test database: Django's test cases call `flush` after each transactional test.

Django's own command runs one TRUNCATE of all tables, which rewrites several files for each table
(150 ms here, although most tables are empty) and takes locks that conflict with every other
session: a worker process that outlives its test then ends in a deadlock. This command deletes the
rows of the tables that have any. Content types and permissions stay, because they are equal for
all tests and `post_migrate` would create them again each time.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections, transaction
from psycopg.errors import DeadlockDetected

PRESERVED_TABLES = {"django_content_type", "auth_permission"}
#: Attempts: a worker that still runs may write between two of them.
MAX_ATTEMPTS = 20


class Command(BaseCommand):
    help = "Deletes all rows of the test database, except content types and permissions."
    #: Options that Django's test cases pass; none of them changes anything here.
    stealth_options = ("reset_sequences", "allow_cascade", "inhibit_post_migrate")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--no-input", action="store_false", dest="interactive")
        parser.add_argument("--database", default=DEFAULT_DB_ALIAS)

    def handle(self, *args: Any, **options: Any) -> None:
        if options.get("reset_sequences"):
            raise CommandError("Sequences are not reset: read ids from the rows instead.")
        delete_all_rows(options["database"])


def delete_all_rows(database: str) -> None:
    """Delete until every table is empty, and retry after a deadlock with a running worker."""
    connection = connections[database]
    names = connection.introspection.django_table_names(only_existing=True, include_views=False)
    tables = [connection.ops.quote_name(name) for name in names if name not in PRESERVED_TABLES]
    for attempts_left in reversed(range(MAX_ATTEMPTS)):
        try:
            with transaction.atomic(using=database), connection.cursor() as cursor:
                if not _delete_rows(cursor, tables):
                    return
        except OperationalError as error:
            if attempts_left == 0 or not isinstance(error.__cause__, DeadlockDetected):
                raise
    raise CommandError(f"Another process keeps writing: rows are left after {MAX_ATTEMPTS} tries.")


def _delete_rows(cursor: Any, tables: list[str]) -> list[str]:
    """Delete all rows and return the tables that had any.

    With `session_replication_role = replica`, which only a superuser may set, PostgreSQL fires
    neither foreign keys nor ordinary triggers: append-only tables can be emptied, in any order.
    """
    checks = (f"SELECT '{name}' WHERE EXISTS (SELECT FROM {name})" for name in tables)
    cursor.execute(" UNION ALL ".join(checks))
    filled = [name for (name,) in cursor.fetchall()]
    if filled:
        cursor.execute("SET LOCAL session_replication_role = replica")
        # This session detects a deadlock before the worker's session does.
        cursor.execute("SET LOCAL deadlock_timeout = '100ms'")
        cursor.execute("; ".join(f"DELETE FROM {name}" for name in filled))
    return filled
