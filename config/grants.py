"""`python -m config.grants`: what the product's role may do with the tables, set after migrating.

The product connects as a role that owns nothing: it reads and writes rows, and can neither alter a
table nor change what is append-only. Runs as the owner (DATABASE_URL); the role comes from
HOLDPOINT_APP_DATABASE_URL. Nothing is done when both are the same role.
"""

import sys
from typing import LiteralString

import psycopg
from psycopg import sql

from config.databases import parse_database_url
from config.env import env_secret

APPEND_ONLY = ("reviews_humanreviewrecord", "reviews_deniedattempt")
EVERYTHING: tuple[LiteralString, ...] = (
    "GRANT USAGE ON SCHEMA public TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
    "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {role}",
    "REVOKE INSERT, UPDATE, DELETE ON django_migrations FROM {role}",
)
ROWS_STAY: LiteralString = "REVOKE UPDATE, DELETE, TRUNCATE ON {table} FROM {role}"


def grant(owner_url: str, app_url: str) -> None:
    """Grants and revokes in one transaction, so that no row is changeable in between."""
    role = parse_database_url(app_url)["USER"]
    if role == parse_database_url(owner_url)["USER"]:
        return
    with psycopg.connect(owner_url) as connection:
        for statement in EVERYTHING:
            connection.execute(sql.SQL(statement).format(role=sql.Identifier(role)))
        for table in APPEND_ONLY:
            connection.execute(
                sql.SQL(ROWS_STAY).format(table=sql.Identifier(table), role=sql.Identifier(role))
            )


def main() -> int:
    grant(env_secret("DATABASE_URL"), env_secret("HOLDPOINT_APP_DATABASE_URL"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
