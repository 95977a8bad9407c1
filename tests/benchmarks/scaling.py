"""Runs per second with 1, 2, 4 and 8 workers and two web processes; what each run takes.

The rate depends on what else the machine does; CPU time and statements hardly do. Statements are
the lines that PostgreSQL writes to its log when it is told to log each, by the name that libpq
gives each process (PGAPPNAME).
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from config.devserver.embedded import EmbeddedServers
from tests.benchmarks import kit
from tests.benchmarks.figures import Figure
from tests.benchmarks.pages import UNLIMITED
from tests.benchmarks.surroundings import Bench
from tests.e2e.product import free_port
from tests.support.groups import group_of
from tests.support.processes import wait_for

WORKERS = (1, 2, 4, 8)
WEB = 2
LAYERS, WIDTH = 3, 3
CLIENTS = 8
KINDS = ("web", "worker", "sweeper", "PostgreSQL", "Redis")
#: A line of the log about one statement, with the name of its process.
_STATEMENT = re.compile(r"^statement of (\w+) LOG:  (?:statement|execute [^:]*):", re.MULTILINE)


class Installed:
    """Two web processes, a pool of workers and a sweeper at the servers of the benchmark."""

    def __init__(self, bench: Bench, stack: ExitStack, workers: int) -> None:
        self.servers = EmbeddedServers(Path(os.environ["HOLDPOINT_HOME"]))
        self.ports = [free_port() for _ in range(WEB)]
        self._kinds: dict[str, list[psutil.Process]] = {}

        def start(kind: str, *command: str) -> psutil.Process:
            process = stack.enter_context(
                bench.running(kind, [*command], PGAPPNAME=kind, **UNLIMITED)
            )
            found = psutil.Process(process.pid)
            self._kinds.setdefault(kind, []).append(found)
            return found

        for port in self.ports:
            daphne = ("-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "--verbosity", "0")
            start("web", *daphne, "config.asgi:application")
        pool = start("worker", "manage.py", "run_workers", "--workers", str(workers))
        start("sweeper", "manage.py", "run_sweeper")
        for port in self.ports:
            wait_for(lambda port=port: self._is_ready(port), what=f"web on {port}")
        wait_for(lambda: len(pool.children()) >= workers, what="workers")

    @staticmethod
    def _is_ready(port: int) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def cpu(self) -> Counter[str]:
        """Return the seconds of CPU time so far, by kind of process, with ended children."""
        servers = {
            "PostgreSQL": [self.servers.postgres.process()],
            "Redis": [self.servers.redis.process()],
        }
        used: Counter[str] = Counter()
        for kind, parents in {**self._kinds, **servers}.items():
            for parent in parents:
                assert parent is not None
                for each in [parent, *parent.children(recursive=True)]:
                    used[kind] += sum(each.cpu_times()[: 4 if each == parent else 2])
        return used

    def run_all(self, client: httpx.Client, count: int, plan: dict[str, Any]) -> float:
        """Start runs at both web processes; return the seconds until the last has ended."""

        def start(number: int) -> None:
            url = f"http://127.0.0.1:{self.ports[number % WEB]}/api/v1/executions/"
            answer = client.post(url, json={"plan": plan})
            assert answer.status_code == 201, answer.text

        begun = time.monotonic()
        with ThreadPoolExecutor(CLIENTS) as threads:
            list(threads.map(start, range(count)))
        wait_for(_all_ended, seconds=600, what="every run ended")
        return time.monotonic() - begun


def _all_ended() -> bool:
    from workflows.models import Execution

    return not Execution.objects.filter(finished_at=None).exists()


@contextmanager
def installed(bench: Bench, workers: int) -> Iterator[Installed]:
    with ExitStack() as stack:
        yield Installed(bench, stack, workers)


def measure(bench: Bench) -> list[Figure]:
    count = bench.rounds(300, 100)
    figures = []
    with httpx.Client(headers=_headers(), timeout=60) as client:
        for workers in WORKERS:
            with installed(bench, workers) as product:
                product.run_all(client, 20, kit.grid(LAYERS, WIDTH))
                before = product.cpu()
                seconds = product.run_all(client, count, kit.grid(LAYERS, WIDTH))
                used = product.cpu() - before
                if workers == WEB:
                    statements = _statements(product, client, count // 5)
            figures += _figures(workers, count, seconds, used)
    return [*figures, *statements]


def _headers() -> dict[str, str]:
    from django.contrib.auth.models import User

    from workflows.permissions.tokens import create_token

    person = User.objects.create_user("scaling")
    person.groups.add(group_of("operator"))
    token = create_token(user=person, name="scaling", scopes=["read", "run"])[1]
    return {"Authorization": f"Bearer {token}"}


def _figures(workers: int, count: int, seconds: float, used: Counter[str]) -> list[Figure]:
    name = f"runs of {LAYERS} x {WIDTH} tasks, {WEB} web processes, workers: {workers}"
    cores = os.cpu_count() or 1
    return [
        Figure(name, count / seconds, "per s", count),
        Figure(f"{name}: CPU, of {cores} cores", 100 * used.total() / seconds / cores, "%", count),
        *(Figure(f"{name}: CPU, {kind}", 1000 * used[kind] / count, "ms per run", count)
          for kind in KINDS),
    ]  # fmt: skip


def _statements(product: Installed, client: httpx.Client, count: int) -> list[Figure]:
    """Count the statements of runs with some layers, and with twice as many."""
    few, many = (
        _logged(product, lambda layers=layers: product.run_all(
            client, count, kit.grid(layers, WIDTH)
        )) for layers in (LAYERS, 2 * LAYERS)
    )  # fmt: skip
    name = f"statements of a run of {LAYERS} x {WIDTH} tasks"
    figures = [
        Figure(f"{name}, {kind}", few[kind] / count, "", count)
        for kind in ("web", "worker", "sweeper")
    ]
    more = (many["worker"] - few["worker"]) / count / LAYERS
    return [*figures, Figure("statements of a layer, worker", more, "", count)]


def _logged(product: Installed, work: Callable[[], object]) -> Counter[str]:
    """Do something and return the statements that PostgreSQL logged meanwhile, by process."""
    log = product.servers.layout.logs / "postgres.log"
    try:
        _set(product, log_statement="all", log_line_prefix="statement of %a ")
        begin = log.stat().st_size
        work()
        return Counter(_STATEMENT.findall(log.read_text()[begin:]))
    finally:
        _set(product, log_statement="none", log_line_prefix="")


def _set(product: Installed, **settings: str) -> None:
    """Change settings of the server; new ones count in a session from its next statement on."""
    with product.servers.postgres.connect("postgres") as session:
        for name, value in settings.items():
            session.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        session.execute("SELECT pg_reload_conf()")
