"""An installation by the commands of docs/operations.md.

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
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
from django.conf import settings
from django.db import connection

from config.devserver.embedded.layout import (
    POSTGRES_MAJOR,
    POSTGRES_PACKAGE,
    SUPERUSER,
    package_folder,
)
from tests.support.processes import ROOT, end, wait_for
from tests.support.servers import database_url
from workflows.api.client import Client

PAGE = Path("docs/operations.md")
FENCED = re.compile(r"^ *```(\w+)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def procfile() -> dict[str, str]:
    """Name → command of deploy/Procfile."""
    text = (ROOT / "deploy/Procfile").read_text(encoding="utf-8")
    return dict(line.split(": ", 1) for line in text.splitlines())


def block(kind: str, word: str, root: Path = ROOT) -> str:
    """The one fenced block of this kind with this word in it, of the product below `root`."""
    page = (root / PAGE).read_text(encoding="utf-8")
    (only,) = [text for name, text in FENCED.findall(page) if name == kind and word in text]
    return only


_FLUSH = Path(__file__).with_name("flush_redis.py")


class Machine:
    """A shell that maps the page's names to this machine, with the product below `root`."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self.root = root
        self.host = quote(connection.settings_dict["HOST"], safe="")
        self.name = f"doc{secrets.token_hex(4)}"
        self.bin = folder / "bin"
        self.bin.mkdir()
        self._program("python", f'exec {shlex.quote(sys.executable)} "$@"')
        self._program("manage.py", f'exec {shlex.quote(sys.executable)} {root}/manage.py "$@"')
        self._program("redis-cli", f'exec {shlex.quote(sys.executable)} {_FLUSH} "$@"')
        self._program("daphne", f'exec {shlex.quote(sys.executable)} -m daphne "$@"')
        tools = package_folder(POSTGRES_PACKAGE) / f"pginstall{POSTGRES_MAJOR}" / "bin"
        self.env = {
            "PATH": f"{self.bin}:{tools}:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONPATH": str(root),
            "DJANGO_SETTINGS_MODULE": "config.settings.base",
            "SECRET_KEY": secrets.token_urlsafe(60),
            "HOLDPOINT_AUDIT_KEY": secrets.token_urlsafe(60),
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
        if role == "superuser":
            return database_url(SUPERUSER, database or self.name)
        # The page leaves out the passwords.
        account = f"{self.name}_{role}:{quote('…')}"
        return f"postgres://{account}@{self.host}/{database or self.name}"

    def meant(self, text: str) -> str:
        """The page's text with the addresses of this machine."""
        for role in ("owner", "app"):
            there = rf"postgres://holdpoint_{role}:…@db\.internal/holdpoint(\?sslmode=verify-full)?"
            text = re.sub(there, self.url(role), text)
        return text

    def run(self, text: str, folder: Path | None = None, **more: str) -> str:
        command = ["bash", "-euo", "pipefail", "-c", self.meant(text)]
        env = {**self.env, **more}
        done = subprocess.run(
            command,
            cwd=folder or self.root,
            env=env,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"{self.meant(text)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def sql(self, text: str, database: str = "postgres") -> str:
        """Through psql, as the page means it."""
        (path := self.bin.parent / "script.sql").write_text(text)
        url = self.url("superuser", database)
        return self.run(f"psql -v ON_ERROR_STOP=1 -q -At -f {path} {shlex.quote(url)}")

    def install(self) -> None:
        """Steps 1 and 4 of the page of its version."""
        self.sql(block("sql", "CREATE ROLE", self.root).replace("holdpoint", self.name))
        self.run(block("sh", "manage.py check --deploy", self.root))

    def remove(self) -> None:
        self.sql(
            f'DROP DATABASE IF EXISTS "{self.name}" WITH (FORCE);'
            f'DROP ROLE IF EXISTS "{self.name}_owner"; DROP ROLE IF EXISTS "{self.name}_app";'
        )

    def administrator(self, name: str, scopes: str) -> str:
        """Create an administrator who also decides reviews, and return a token."""
        person = f"--username {name} --email {name}@example.com"
        self.run(f"manage.py createsuperuser --noinput {person}")
        join = (
            "from django.contrib.auth.models import Group, User;"
            " group, _ = Group.objects.get_or_create(name='reviewer');"
            f" User.objects.get(username='{name}').groups.add(group)"
        )
        self.run(f'manage.py shell -c "{join}"')
        return self.run(f"manage.py create_token {name} --scopes {scopes}").strip()

    def upgraded(self, folder: Path) -> Machine:
        """The same installation with the product of this checkout."""
        machine = Machine(folder)
        code = {
            name: machine.env[name] for name in ("PATH", "PYTHONPATH", "DJANGO_SETTINGS_MODULE")
        }
        machine.name, machine.env = self.name, {**self.env, **code}
        return machine

    @contextmanager
    def running(self, *names: str, port: int) -> Iterator[None]:
        """Start these lines of the Procfile as written; a process that ended fails the test."""
        env = {**self.env, "PORT": str(port)}
        lines = procfile()
        started = [
            subprocess.Popen(
                ["bash", "-c", lines[name]], cwd=self.root, env=env, start_new_session=True
            )
            for name in names
        ]
        try:
            yield
            assert all(each.poll() is None for each in started)
        finally:
            for each in started:
                end(each)


class Proxy(httpx.HTTPTransport):
    """Adds the headers with which the proxy of the page forwards a request."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Host"] = "holdpoint.example.com"
        request.headers["X-Forwarded-Proto"] = "https"
        request.headers["X-Forwarded-For"] = "127.0.0.1"
        return super().handle_request(request)


def client(port: int, token: str) -> Client:
    return Client(f"http://127.0.0.1:{port}", token, transport=Proxy())


def wait_until_ready(port: int) -> None:
    wait_for(lambda: is_ready(port), seconds=120, what="readiness")


def is_ready(port: int) -> bool:
    with httpx.Client(transport=Proxy(), timeout=5) as http:
        try:
            return http.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
        except httpx.HTTPError:
            return False
