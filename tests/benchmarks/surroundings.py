"""Servers, worker processes and people of one benchmark, in a temporary folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from redis import Redis

from config.devserver.embedded import EmbeddedServers
from tests.benchmarks import bare, peer
from tests.benchmarks.bare import REPORTS

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ROOT = Path(__file__).resolve().parents[2]
WORKER = ["manage.py", "run_workers", "--workers", "1", "--skip-checks"]


@dataclass
class Bench:
    """What the measurements share.  Processes are started when one first needs them."""

    quick: bool
    conninfo: str
    stack: ExitStack
    _worker: int = 0
    _started: dict[str, int] = field(default_factory=dict)

    def rounds(self, full: int, quick: int) -> int:
        """How often to repeat."""
        return quick if self.quick else full

    @cached_property
    def _redis(self) -> Redis:
        # redis-py gives a blocking call up after some seconds unless told not to.
        return Redis.from_url(os.environ["REDIS_URL"], socket_timeout=None)

    # --- reports of other processes -------------------------------------------------------------

    def told(self, seconds: float = 120) -> dict[str, Any]:
        """The next report of the kit, a bare job or the listener."""
        found = self._redis.blpop([REPORTS], timeout=int(seconds))
        if found is None:
            raise RuntimeError(f"nothing was reported within {seconds} s")
        return dict(json.loads(found[1]))

    def told_by(self, name: str, seconds: float = 120) -> dict[str, Any]:
        """The next report of that name; others before it are dropped."""
        while True:
            report = self.told(seconds)
            if report["name"] == name:
                return report

    def forget_reports(self) -> None:
        self._redis.delete(REPORTS)

    # --- processes ------------------------------------------------------------------------------

    def need_worker(self) -> int:
        """The product's worker, in a process of its own; its pid."""
        if not self._worker:
            pool = self._process("worker", WORKER)
            self._worker = _child_of(pool)
        return self._worker

    @contextmanager
    def second_worker(self) -> Iterator[list[int]]:
        """Two workers for a while; their pids."""
        first = self.need_worker()
        with self.running("worker", WORKER) as pool:
            yield [first, _child_of(pool)]

    @contextmanager
    def running(
        self, role: str, command: list[str], **env: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A process of the product for a while."""
        child = self._process(role, command, **env)
        try:
            yield child
        finally:
            _end(child)

    def need_bare_worker(self) -> int:
        """The worker without the product; its pid."""
        return self.start("bare", ["-m", "tests.benchmarks.bare"])

    def need_listener(self) -> None:
        """A process that listens on the channel layer."""
        if "listener" not in self._started:
            self.start("listener", ["-m", "tests.benchmarks.listener"])
            self.told_by("listening")

    def start(self, role: str, command: list[str]) -> int:
        """A process of the part's own, ended with the benchmark; started once; its pid."""
        if role not in self._started:
            self._started[role] = self._process(role, command).pid
        return self._started[role]

    def _process(self, role: str, command: list[str], **env: str) -> subprocess.Popen[bytes]:
        known = role if role in {"worker", "sweeper"} else "web"
        child = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env={**os.environ, "HOLDPOINT_ROLE": known, **env},
            start_new_session=True,
        )
        self.stack.callback(_end, child)
        return child


def _child_of(pool: subprocess.Popen[bytes]) -> int:
    import psutil

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        children = psutil.Process(pool.pid).children()
        if children:
            return int(children[0].pid)
        time.sleep(0.05)
    raise RuntimeError("the worker did not start")


def _end(child: subprocess.Popen[bytes]) -> None:
    from tests.support.processes import end

    if child.poll() is None:
        end(child)


@contextmanager
def bench(*, quick: bool) -> Iterator[Bench]:
    """Durable servers, a migrated database, the kit in the catalogue; all gone afterwards."""
    with ExitStack() as stack:
        home = Path(tempfile.mkdtemp(prefix="holdpoint-bench-"))
        servers = EmbeddedServers(home, durable=True)
        stack.callback(_remove, servers, home)  # even when the next line stops it
        stack.callback(servers.stop)
        home.chmod(0o711)  # the account that runs PostgreSQL must be able to walk in
        urls = servers.start()
        _tell_commits(urls.superuser)
        servers.stop()
        urls = servers.start()
        _settle(home, urls.superuser, urls.redis)
        conninfo = urls.superuser
        os.environ["BENCH_DATABASE"] = conninfo
        _prepare()
        yield Bench(quick, conninfo, stack)


def _tell_commits(database: str) -> None:
    """Have PostgreSQL keep the moment of each commit; in force from its next start."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET track_commit_timestamp = on")


def _settle(home: Path, database: str, redis: str) -> None:
    """Every process of the benchmark inherits these; nothing of the caller's servers is used."""
    os.environ.update(
        DJANGO_SETTINGS_MODULE="tests.benchmarks.settings",
        HOLDPOINT_TEST_HOME=str(home),
        HOLDPOINT_HOME=str(home),
        DATABASE_URL=database,
        REDIS_URL=redis,
        LANGSMITH_TRACING="false",
    )


def _prepare() -> None:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    from workflows.planning.planner import sync_python_tools

    sync_python_tools()
    bare.postgres().execute(bare.SCHEMA, prepare=False)
    if peer.installed():
        peer.make_tables(os.environ["BENCH_DATABASE"])


def _remove(servers: EmbeddedServers, home: Path) -> None:
    for folder in {servers.layout.base, servers.layout.sockets, home}:
        shutil.rmtree(folder, ignore_errors=True)


# --- short words for runs -------------------------------------------------------------------------


def start_quietly(plan: Any, **more: Any) -> int:
    """A new execution that nobody is sent for; its id."""
    from unittest import mock

    from workflows.executions import services

    with mock.patch.object(services, "enqueue_advance_on_commit"):
        return int(services.start_execution(actor=None, plan=plan, **more).pk)


def wait_until_final(execution_id: int, seconds: float = 300) -> None:
    """Until the execution has ended."""
    from workflows.engine.protocol.status import ExecutionStatus
    from workflows.models import Execution

    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        status = Execution.objects.values_list("status", flat=True).get(pk=execution_id)
        if ExecutionStatus(status).is_final:
            return
        time.sleep(0.02)
    raise RuntimeError(f"execution {execution_id} did not end within {seconds} s")


@cache
def reviewer() -> User:
    """A person who may decide; made on first use."""
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group

    from workflows.executions import access

    person, made = get_user_model().objects.get_or_create(username="bench")
    if made:
        group, _ = Group.objects.get_or_create(name=access.REVIEWER)
        person.groups.add(group)
    return person
