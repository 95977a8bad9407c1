"""The rights of the product's database role after `config.database.roles`."""

import psycopg
import pytest
from django.conf import settings
from django.db import DatabaseError, connection

from config.database.roles import append_only_tables, grant
from config.devserver.embedded.layout import APP_ROLE, SUPERUSER
from tests.support.catalogue import stock_catalogue
from tests.support.servers import database_url
from workflows.executions.services import start_execution
from workflows.models import QueuedCommand

pytestmark = pytest.mark.django_db(transaction=True)
#: Tables that are known to be append-only; those of a new guard are found by themselves.
KNOWN = {
    "reviews_deniedattempt",
    "reviews_humanreviewrecord",
    "reviews_secretreveal",
    "workflows_commandlog",
    "workflows_executionevent",
    "workflows_executionreceipt",
    "workflows_planrevision",
    "workflows_queuedcommand",
}
TASK = {"id": "a", "type": "tool", "tool": "builtin.echo", "arguments": {"value": 1}}
FORBIDDEN = (
    "UPDATE {table} SET id = id",
    "DELETE FROM {table}",
    "TRUNCATE {table}",
    "TRUNCATE {table} CASCADE",
    "ALTER TABLE {table} DISABLE TRIGGER ALL",
    "ALTER TABLE {table} DISABLE TRIGGER {trigger}",
    "ALTER TABLE {table} ADD COLUMN more int",
    "ALTER TABLE {table} OWNER TO CURRENT_USER",
    "CREATE RULE quiet AS ON INSERT TO {table} DO INSTEAD NOTHING",
    "CREATE TRIGGER quiet BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {function}()",
    "CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS"
    " 'BEGIN RETURN NULL; END'",
    "DROP FUNCTION {function} CASCADE",
    "DROP TRIGGER {trigger} ON {table}",
    "DROP TABLE {table}",
    "DROP TABLE {table} CASCADE",
    "GRANT ALL ON {table} TO CURRENT_USER",
    "SET session_replication_role = replica",
    "SET ROLE {owner}",
)
TRIGGERS = """
SELECT c.relname, t.tgname, f.proname FROM pg_trigger t
  JOIN pg_proc f ON f.oid = t.tgfoid JOIN pg_class c ON c.oid = t.tgrelid
 WHERE NOT t.tgisinternal AND c.relname = ANY(%s) ORDER BY 1, 2
"""


@pytest.fixture
def app_url() -> str:
    """The address of the test database for the role the product runs as, rights granted."""
    if settings.DATABASES["default"]["USER"] != SUPERUSER:
        pytest.skip("needs the embedded server, where the roles are known")
    name = connection.settings_dict["NAME"]
    url = database_url(APP_ROLE, name)
    grant(database_url(SUPERUSER, name), url)
    return url


def triggers(app_url: str) -> list[tuple[str, str, str]]:
    """(table, trigger, function) of every append-only table, read from the catalogue."""
    with psycopg.connect(app_url) as session:
        return session.execute(TRIGGERS, [append_only_tables()]).fetchall()


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_records_cannot_be_changed_by_the_product(app_url: str, statement: str) -> None:
    """By its role, before any trigger is asked: the database's own words say so."""
    found = triggers(app_url)
    assert {table for table, _, _ in found} >= KNOWN
    with psycopg.connect(app_url, autocommit=True) as session:
        assert session.execute("SELECT current_user").fetchone() == (APP_ROLE,)
        for table, trigger, function in found:
            told = statement.format(
                table=table, trigger=trigger, function=function, owner=SUPERUSER
            )
            if told.startswith("GRANT"):
                # A role without the right to grant is warned and gives nothing.
                session.execute(told)
                query = "SELECT has_table_privilege(%s, 'UPDATE')"
                assert session.execute(query, [table]).fetchone() == (False,), told
                continue
            with pytest.raises(
                psycopg.errors.InsufficientPrivilege, match=r"permission denied|must be owner"
            ):
                session.execute(told)


def test_a_queued_command_is_marked_as_taken_once_and_nothing_else(app_url: str) -> None:
    stock_catalogue()
    execution = start_execution(plan={"tasks": [TASK]}, actor=None)
    queued = QueuedCommand.objects.create(
        execution=execution, command={"kind": "abort"}, actor="ann", source="rest"
    )
    table = "workflows_queuedcommand"
    with psycopg.connect(app_url, autocommit=True) as session:
        for change in ("actor = 'bob'", "command = '{}'", "source = 'mcp'", "created_at = now()"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
                session.execute(f"UPDATE {table} SET {change}")
        session.execute(f"UPDATE {table} SET taken_at = now() WHERE id = %s", [queued.pk])
        for again in ("now()", "NULL"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"):
                session.execute(f"UPDATE {table} SET taken_at = {again}")
    # Whoever owns the table meets the trigger.
    for change in ("actor = 'bob'", "taken_at = now(), source = 'mcp'"):
        with pytest.raises(DatabaseError, match="append-only"), connection.cursor() as cursor:
            cursor.execute(f"UPDATE {table} SET {change}")


def test_the_log_of_commands_only_grows(app_url: str) -> None:
    stock_catalogue()
    execution = start_execution(plan={"tasks": [TASK]}, actor=None)
    with psycopg.connect(app_url, autocommit=True) as session:
        session.execute(
            "INSERT INTO workflows_commandlog (execution_id, kind, actor, source, outcome, detail)"
            " VALUES (%s, 'abort', 'ann', 'rest', 'queued', '')",
            [execution.pk],
        )
        for change in ("UPDATE {} SET outcome = 'applied'", "DELETE FROM {}", "TRUNCATE {}"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
                session.execute(change.format("workflows_commandlog"))
            with pytest.raises(DatabaseError, match="append-only"), connection.cursor() as cursor:
                cursor.execute(change.format("workflows_commandlog"))


def test_an_append_only_table_has_a_guard_in_the_database(app_url: str) -> None:
    guarded = {table for table, name, _ in triggers(app_url) if "append_only" in name}
    assert guarded == set(append_only_tables())


def test_no_setting_switches_a_guard_off(app_url: str) -> None:
    """The functions of django-pgtrigger look at this setting, which every role may set."""
    stock_catalogue()
    start_execution(plan={"tasks": [TASK]}, actor=None)
    table = "workflows_planrevision"
    ignored = ",".join(name for each, name, _ in triggers(app_url) if each == table)
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('pgtrigger.ignore', %s, false)", [f"{{{ignored}}}"])
        try:
            for change in (f"UPDATE {table} SET number = 9", f"DELETE FROM {table}"):
                with pytest.raises(DatabaseError, match="append-only"):
                    cursor.execute(change)
        finally:
            cursor.execute("RESET pgtrigger.ignore")


def test_records_can_be_read_and_added(app_url: str) -> None:
    with psycopg.connect(app_url) as session:
        for table in append_only_tables():
            for right in ("SELECT", "INSERT"):
                query = "SELECT has_table_privilege(%s, %s)"
                assert session.execute(query, [table, right]).fetchone() == (True,)


def test_other_tables_are_readable_and_writable(app_url: str) -> None:
    with psycopg.connect(app_url) as session:
        session.execute("INSERT INTO auth_group (name) VALUES ('x')")
        session.execute("UPDATE auth_group SET name = name")
        assert session.execute("DELETE FROM auth_group WHERE name = 'x'").rowcount == 1
        session.rollback()


def test_only_the_owner_migrates(app_url: str) -> None:
    with (
        psycopg.connect(app_url) as session,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        session.execute("DELETE FROM django_migrations")


def test_one_role_for_both_needs_no_grant() -> None:
    url = "postgres://same@nowhere.invalid/x"
    grant(url, url)  # does not even connect
