"""The commands of docs/operations.md: roles, migrations, processes, backup, restore.

A shell runs them as written with PostgreSQL's own programs; only the names of hosts, roles and
databases are replaced.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import psycopg
import pytest
from django.conf import settings
from django.db import connection

from config.devserver.embedded.layout import (
    POSTGRES_MAJOR,
    POSTGRES_PACKAGE,
    SUPERUSER,
    package_folder,
)
from tests.e2e.product import free_port
from tests.support.processes import ROOT, end, wait_for

TEXT = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
FENCED = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def block(kind: str, word: str) -> str:
    """The one fenced block of this kind with this word in it."""
    (only,) = [text for name, text in FENCED.findall(TEXT) if name == kind and word in text]
    return only


class Machine:
    """A shell that maps the page's names to this machine."""

    def __init__(self, folder: Path) -> None:
        self.host = quote(connection.settings_dict["HOST"], safe="")
        self.name = f"doc{secrets.token_hex(4)}"
        self.bin = folder / "bin"
        self.bin.mkdir()
        self._program("python", f'exec {shlex.quote(sys.executable)} "$@"')
        self._program("manage.py", f'exec {shlex.quote(sys.executable)} {ROOT}/manage.py "$@"')
        self._program("redis-cli", f'exec {shlex.quote(sys.executable)} {_FLUSH} "$@"')
        self._program("daphne", f'exec {shlex.quote(sys.executable)} -m daphne "$@"')
        tools = package_folder(POSTGRES_PACKAGE) / f"pginstall{POSTGRES_MAJOR}" / "bin"
        self.env = {
            "PATH": f"{self.bin}:{tools}:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT),
            "DJANGO_SETTINGS_MODULE": "config.settings.base",
            "SECRET_KEY": secrets.token_urlsafe(60),
            "ALLOWED_HOSTS": "holdpoint.example.com",
            "HOLDPOINT_SITE_URL": "https://holdpoint.example.com",
            "HOLDPOINT_HOME": str(folder / "home"),
            "HOLDPOINT_BEHIND_PROXY": "1",
            "DATABASE_URL": self.url("app"),
            "REDIS_URL": settings.REDIS_URL,
        }

    def _program(self, name: str, line: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def url(self, role: str, database: str = "") -> str:
        user = SUPERUSER if role == "superuser" else f"{self.name}_{role}"
        return f"postgres://{user}@{self.host}/{database or self.name}"

    def meant(self, text: str) -> str:
        """The page's text with the addresses of this machine."""
        for role in ("owner", "app"):
            there = rf"postgres://holdpoint_{role}:…@db\.internal/holdpoint(\?sslmode=verify-full)?"
            text = re.sub(there, self.url(role), text)
        return text

    def run(self, text: str, folder: Path = ROOT, **more: str) -> str:
        command = ["bash", "-euo", "pipefail", "-c", self.meant(text)]
        env = {**self.env, **more}
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, f"{self.meant(text)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def sql(self, text: str, database: str = "postgres") -> str:
        """Through psql, as the page means it."""
        (path := self.bin.parent / "script.sql").write_text(text)
        url = self.url("superuser", database)
        return self.run(f"psql -v ON_ERROR_STOP=1 -q -At -f {path} {shlex.quote(url)}")


_FLUSH = Path(__file__).with_name("flush_redis.py")


@pytest.fixture(scope="module")
def machine(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    if settings.DATABASES["default"]["USER"] != SUPERUSER:
        pytest.skip("needs the embedded server, whose superuser is known")
    made = Machine(tmp_path_factory.mktemp("operations"))
    try:
        yield made
    finally:
        made.sql(
            f'DROP DATABASE IF EXISTS "{made.name}" WITH (FORCE);'
            f'DROP ROLE IF EXISTS "{made.name}_owner"; DROP ROLE IF EXISTS "{made.name}_app";'
        )


@pytest.fixture(scope="module")
def installed(machine: Machine) -> Machine:
    """Steps 1 and 4 of the page."""
    machine.sql(block("sql", "CREATE ROLE").replace("holdpoint", machine.name))
    machine.run(block("sh", "manage.py createsuperuser"))
    return machine


def test_the_products_role_owns_nothing_and_cannot_change_records(installed: Machine) -> None:
    with psycopg.connect(installed.url("app")) as session:
        owned = "SELECT count(*) FROM pg_class WHERE relowner = current_user::regrole"
        assert session.execute(owned).fetchone() == (0,)
        rights = "SELECT has_table_privilege('reviews_humanreviewrecord', %s)"
        granted = [session.execute(rights, [r]).fetchone() for r in ("SELECT", "INSERT", "UPDATE")]
        assert granted == [(True,), (True,), (False,)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("DELETE FROM reviews_humanreviewrecord")


def test_the_procfile_runs_as_the_products_role(installed: Machine) -> None:
    """Start web, workers and sweeper as written, until `/readyz` answers 200."""
    port = free_port()
    lines = dict(line.split(": ", 1) for line in block("text", "HOLDPOINT_ROLE=web").splitlines())
    assert set(lines) == {"web", "workers", "sweeper", "release"}
    env = {**installed.env, "PORT": str(port)}
    running = [
        subprocess.Popen(["bash", "-c", lines[name]], cwd=ROOT, env=env, start_new_session=True)
        for name in ("web", "workers", "sweeper")
    ]
    try:
        wait_for(lambda: ready(port), seconds=120, what="readiness")
        assert all(each.poll() is None for each in running)
    finally:
        for each in running:
            end(each)


def ready(port: int) -> bool:
    headers = {"Host": "holdpoint.example.com", "X-Forwarded-Proto": "https"}
    try:
        answer = httpx.get(f"http://127.0.0.1:{port}/readyz", headers=headers, timeout=5)
    except httpx.HTTPError:
        return False
    return answer.status_code == 200


def test_a_backup_is_restored(installed: Machine, tmp_path: Path) -> None:
    """Drop the database in between; afterwards rows, records and rights are as before."""
    make = "from django.contrib.auth.models import Group; Group.objects.create(name='kept')"
    installed.run(f'manage.py shell -c "{make}"')
    installed.run(block("sh", "pg_dump"), tmp_path)
    lost = f'DROP DATABASE "{installed.name}" WITH (FORCE);'
    fresh = block("sql", "CREATE ROLE").replace("holdpoint", installed.name)
    again = "".join(line for line in fresh.splitlines(keepends=True) if "ROLE" not in line)
    installed.sql(lost + "\n" + again)
    output = installed.run(block("sh", "pg_restore"), tmp_path)
    assert "record" in output
    with psycopg.connect(installed.url("app")) as session:
        restored = session.execute("SELECT count(*) FROM auth_group WHERE name = 'kept'").fetchone()
        assert restored == (1,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("UPDATE reviews_humanreviewrecord SET comment = ''")


def test_migrating_and_granting_again_changes_nothing(installed: Machine) -> None:
    """An upgrade runs them over what is there, and so does a release of the Procfile."""
    owner = installed.url("owner")
    output = installed.run(
        block("text", "release:").split("release: ", 1)[1],
        DATABASE_URL=owner,
        HOLDPOINT_APP_DATABASE_URL=installed.url("app"),
    )
    assert "No migrations to apply." in output
