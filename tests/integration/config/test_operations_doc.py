"""The commands of docs/operations.md: roles, migrations, processes, backup, restore.

A shell runs them as written with PostgreSQL's own programs; only the names of hosts, roles and
databases are replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings

from config.devserver.embedded.layout import SUPERUSER
from tests.support.documented_installation import (
    Machine,
    block,
    client,
    procfile,
    wait_until_ready,
)
from tests.support.ports import free_port
from tests.support.processes import wait_for
from workflows.executions.access import ROLES


def tool(name: str, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": tool, "arguments": arguments}


PLAN = {
    "tasks": [
        tool("a", "builtin.echo", value="first"),
        {
            **tool("b", "builtin.echo", value={"$from": "a"}),
            "human_review": {"trigger_phase": "BEFORE_EXECUTION"},
        },
    ]
}


@pytest.fixture(scope="module")
def machine(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    if settings.DATABASES["default"]["USER"] != SUPERUSER:
        pytest.skip("needs the embedded server, whose superuser is known")
    made = Machine(tmp_path_factory.mktemp("operations"))
    try:
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="module")
def installed(machine: Machine) -> Machine:
    machine.install()
    return machine


def test_the_roles_have_groups_with_permissions(installed: Machine) -> None:
    """Reviews wait for the group `reviewer`."""
    with psycopg.connect(installed.url("app")) as session:
        groups = session.execute("SELECT name FROM auth_group ORDER BY name").fetchall()
        assert groups == [(name,) for name in sorted(ROLES)]
        decide = """
            SELECT g.name FROM auth_group AS g
              JOIN auth_group_permissions AS given ON given.group_id = g.id
              JOIN auth_permission AS p ON p.id = given.permission_id
             WHERE p.codename = 'decide_hold' ORDER BY g.name
        """
        assert session.execute(decide).fetchall() == [("admin",), ("reviewer",)]


def test_the_products_role_owns_nothing_and_cannot_change_records(installed: Machine) -> None:
    with psycopg.connect(installed.url("app")) as session:
        owned = "SELECT count(*) FROM pg_class WHERE relowner = current_user::regrole"
        assert session.execute(owned).fetchone() == (0,)
        rights = "SELECT has_table_privilege('reviews_humanreviewrecord', %s)"
        granted = [session.execute(rights, [r]).fetchone() for r in ("SELECT", "INSERT", "UPDATE")]
        assert granted == [(True,), (True,), (False,)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("DELETE FROM reviews_humanreviewrecord")


def test_the_products_role_adds_rows_to_tables_of_later_migrations(installed: Machine) -> None:
    """Triggers write there for processes of the old version, before the rights are granted."""
    with psycopg.connect(installed.url("owner")) as owner:
        owner.execute("CREATE TABLE later (id bigserial PRIMARY KEY)")
    try:
        with psycopg.connect(installed.url("app")) as session:
            session.execute("INSERT INTO later DEFAULT VALUES")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute("DELETE FROM later")
    finally:
        with psycopg.connect(installed.url("owner")) as owner:
            owner.execute("DROP TABLE later")


def test_the_procfile_runs_as_the_products_role(installed: Machine) -> None:
    """Start web, workers and sweeper as written, until `/readyz` answers 200."""
    port = free_port()
    assert set(procfile()) == {"web", "workers", "sweeper", "release"}
    with installed.running("web", "workers", "sweeper", port=port):
        wait_until_ready(port)


def test_a_backup_is_restored(installed: Machine, tmp_path: Path) -> None:
    """Back up while runs work and wait, lose the database, restore, and go on where they were."""
    starter, reviewer = (
        installed.administrator(name, scopes)
        for name, scopes in (("starter", "read,run"), ("reviewer", "read,decide"))
    )
    installed.run("manage.py sync_tools")
    port = free_port()
    with (
        installed.running("web", "workers", "sweeper", port=port),
        client(port, starter) as starts,
        client(port, reviewer) as reviews,
    ):
        wait_until_ready(port)
        decided, held = starts.start(plan=PLAN), starts.start(plan=PLAN)
        decided = starts.wait(decided.id, timeout=60)
        reviews.decide(decided, decided.open_holds[0]["id"], "APPROVE")
        assert starts.wait(decided.id, timeout=60).status == "COMPLETED"
        held = starts.wait(held.id, timeout=60)
        working = starts.start(plan={"tasks": [tool("wait", "builtin.wait", seconds=5)]})
        wait_for(lambda: starts.get(working.id).status == "RUNNING", what="the run works")
        installed.run(block("sh", "pg_dump"), tmp_path)
    lose_the_database(installed)
    output = installed.run(block("sh", "pg_restore"), tmp_path)
    assert "1 records are whole" in output
    assert "1 of them are signed" in output
    with (
        psycopg.connect(installed.url("app")) as session,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        session.execute("UPDATE reviews_humanreviewrecord SET comment = ''")
    with (
        installed.running("web", "workers", "sweeper", port=port),
        client(port, starter) as starts,
        client(port, reviewer) as reviews,
    ):
        wait_until_ready(port)
        (hold,) = held.open_holds
        reviews.decide(starts.get(held.id), hold["id"], "APPROVE", edits={"value": "edited"})
        assert starts.wait(held.id, timeout=60).output("b") == "edited"
        assert starts.wait(working.id, timeout=90).status == "COMPLETED"
    assert "2 records are whole" in installed.run("manage.py verify_audit")


def lose_the_database(machine: Machine) -> None:
    """Drop it, and make an empty one as in step 1; the roles stay."""
    made = block("sql", "CREATE ROLE").replace("holdpoint", machine.name)
    again = "".join(line for line in made.splitlines(keepends=True) if "ROLE" not in line)
    machine.sql(f'DROP DATABASE "{machine.name}" WITH (FORCE);\n{again}')


def test_migrating_and_granting_again_changes_nothing(installed: Machine) -> None:
    """An upgrade runs them over what is there, and so does a release of the Procfile."""
    owner = installed.url("owner")
    output = installed.run(
        procfile()["release"],
        DATABASE_URL=owner,
        HOLDPOINT_APP_DATABASE_URL=installed.url("app"),
    )
    assert "No migrations to apply." in output
