"""What the product's database role may do, after `config.grants`."""

from urllib.parse import quote

import psycopg
import pytest
from django.conf import settings
from django.db import connection

from config.embedded.layout import APP_ROLE, SUPERUSER
from config.grants import APPEND_ONLY, grant

pytestmark = pytest.mark.django_db(transaction=True)
FORBIDDEN = (
    "UPDATE {table} SET id = id",
    "DELETE FROM {table}",
    "TRUNCATE {table}",
    "ALTER TABLE {table} DISABLE TRIGGER ALL",
    "DROP TABLE {table}",
    "SET session_replication_role = replica",
)


@pytest.fixture
def app_url() -> str:
    """The address of the test database for the role the product runs as, rights granted."""
    if settings.DATABASES["default"]["USER"] != SUPERUSER:
        pytest.skip("needs the embedded server, where the roles are known")
    host = quote(connection.settings_dict["HOST"], safe="")
    name = quote(connection.settings_dict["NAME"], safe="")
    grant(f"postgres://{SUPERUSER}@{host}/{name}", f"postgres://{APP_ROLE}@{host}/{name}")
    return f"postgres://{APP_ROLE}@{host}/{name}"


@pytest.mark.parametrize("table", APPEND_ONLY)
@pytest.mark.parametrize("statement", FORBIDDEN)
def test_records_cannot_be_changed_by_the_product(app_url: str, table: str, statement: str) -> None:
    with (
        psycopg.connect(app_url) as session,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        session.execute(statement.format(table=table))


@pytest.mark.parametrize("table", APPEND_ONLY)
def test_records_can_be_read_and_added(app_url: str, table: str) -> None:
    with psycopg.connect(app_url) as session:
        for right in ("SELECT", "INSERT"):
            query = "SELECT has_table_privilege(%s, %s)"
            assert session.execute(query, [table, right]).fetchone() == (True,)


def test_the_rest_is_readable_and_writable(app_url: str) -> None:
    with psycopg.connect(app_url) as session:
        session.execute("INSERT INTO auth_group (name) VALUES ('x')")
        session.execute("UPDATE auth_group SET name = 'y'")
        assert session.execute("DELETE FROM auth_group").rowcount >= 1
        session.rollback()


def test_migrations_are_the_owners_business(app_url: str) -> None:
    with (
        psycopg.connect(app_url) as session,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        session.execute("DELETE FROM django_migrations")


def test_one_role_for_both_needs_no_grant() -> None:
    url = "postgres://same@nowhere.invalid/x"
    grant(url, url)  # does not even connect
