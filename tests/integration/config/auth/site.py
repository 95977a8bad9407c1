"""A web process on a migrated database of its own, for tests of signing in."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
from django.conf import settings

from tests.support.ports import free_port
from tests.support.processes import ROOT, database_url, end, environment, wait_for


class Site:
    """The web process, its database and its environment."""

    def __init__(self, port: int, database: str, env: dict[str, str]) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.database, self.env = database, env

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=self.env, capture_output=True, text=True, check=False
        )

    def rows(self, query: str, *values: Any) -> list[Any]:
        with psycopg.connect(self.database, autocommit=True) as connection:
            cursor = connection.execute(query, values)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []


@contextmanager
def running_site(folder: Path, **settings_in_environment: str) -> Iterator[Site]:
    """Create a database and start a web process; drop and stop both afterwards."""
    whole = database_url()
    name = f"site_{free_port()}"
    with psycopg.connect(whole, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type]
    database = re.sub(r"@/[^?]+\?", f"@/{name}?", whole)
    port = free_port()
    env = environment(
        DATABASE_URL=database,
        HOLDPOINT_ROLE="web",
        HOLDPOINT_HOME=str(folder),
        HOLDPOINT_SITE_URL=f"http://127.0.0.1:{port}",
        REDIS_URL=settings.REDIS_URL,
        **settings_in_environment,
    )
    site = Site(port, database, env)
    migrated = site.manage("migrate", "--skip-checks", "-v", "0")
    assert migrated.returncode == 0, migrated.stderr
    command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port)]
    command += ["--verbosity", "0", "config.asgi:application"]
    web = subprocess.Popen(command, cwd=ROOT, env=env, start_new_session=True)
    try:
        wait_for(lambda: _answers(site), seconds=90, what="the web process")
        yield site
    finally:
        end(web)
        with psycopg.connect(whole, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')  # type: ignore[arg-type]


def _answers(site: Site) -> bool:
    try:
        return httpx.get(f"{site.url}/livez", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False
