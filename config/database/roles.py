"""`python -m config.database.roles`: grant the product's database role its rights on the tables.

The product connects as a role that owns no tables: it can read and write rows, but cannot alter
tables or change append-only rows. The command connects as the owner (DATABASE_URL) and grants to
the role of HOLDPOINT_APP_DATABASE_URL. It does nothing if both URLs have the same role.

It runs before and after `migrate`. Run before, it also counts for the tables that the migrations
create: new triggers write there on behalf of processes of the old version, which serve meanwhile.
The database may be empty then.
"""

import os
import sys
from typing import Any, LiteralString

import django
import psycopg
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from psycopg import sql

from config.settings.databases import parse_database_url
from config.settings.topics import Database
from workflows.common.guards import AppendOnly

#: For tables that the owner creates later.
LATER: tuple[LiteralString, ...] = (
    "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT ON TABLES TO {role}",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO {role}",
)
EVERYTHING: tuple[LiteralString, ...] = (
    "GRANT USAGE ON SCHEMA public TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
    "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {role}",
)
ROWS_STAY: LiteralString = "REVOKE UPDATE, DELETE, TRUNCATE ON {table} FROM {role}"
#: Table or function → statements about it. An empty database has none of them.
WHERE_PRESENT: dict[str, tuple[LiteralString, ...]] = {
    "django_migrations": ("REVOKE INSERT, UPDATE, DELETE ON django_migrations FROM {role}",),
    # The one column of an append-only table that a worker writes; a trigger lets it do so once.
    "workflows_queuedcommand": ("GRANT UPDATE (taken_at) ON workflows_queuedcommand TO {role}",),
    # The one function with rights that the product's role lacks.
    "holdpoint_erase": (
        "REVOKE ALL ON FUNCTION holdpoint_erase FROM PUBLIC",
        "GRANT EXECUTE ON FUNCTION holdpoint_erase TO {role}",
    ),
}
PRESENT: LiteralString = "SELECT coalesce(to_regclass(%s)::oid, to_regproc(%s)::oid) IS NOT NULL"


def append_only_tables() -> list[str]:
    """Return the names of the tables whose model has the guard `AppendOnly`."""
    return sorted(
        model._meta.db_table
        for model in apps.get_models()
        if any(isinstance(each, AppendOnly) for each in getattr(model._meta, "triggers", ()))
    )


def is_present(connection: psycopg.Connection[Any], name: str) -> bool:
    """Return whether the database has a table or a function with the name."""
    return connection.execute(PRESENT, [name, name]).fetchone() == (True,)


def grant(owner_url: str, app_url: str) -> None:
    """Grant and revoke in one transaction, so that append-only rows are protected throughout."""
    role = parse_database_url(app_url)["USER"]
    if role == parse_database_url(owner_url)["USER"]:
        return
    with psycopg.connect(owner_url) as connection:
        for statement in (*LATER, *EVERYTHING):
            connection.execute(sql.SQL(statement).format(role=sql.Identifier(role)))
        for table in append_only_tables():
            if is_present(connection, table):
                names = {"table": sql.Identifier(table), "role": sql.Identifier(role)}
                connection.execute(sql.SQL(ROWS_STAY).format(**names))
        for name, statements in WHERE_PRESENT.items():
            if is_present(connection, name):
                for statement in statements:
                    connection.execute(sql.SQL(statement).format(role=sql.Identifier(role)))


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.base")
    django.setup()
    database = Database.read()
    if not database.app_database_url:
        raise ImproperlyConfigured("HOLDPOINT_APP_DATABASE_URL is not set.")
    grant(database.database_url, database.app_database_url)
    return 0


if __name__ == "__main__":
    sys.exit(main())
