"""The product's processes on hosts, with PostgreSQL and Redis; how they are lost."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

from config.devserver.embedded.processes import tail
from tests.cluster import clock
from tests.cluster.disk import Disk
from tests.cluster.load import HEADERS, NAME, RETRIED
from tests.cluster.network import Host, Process
from tests.cluster.servers import Postgres, Redis
from tests.support.processes import wait_for
from tests.support.webhook_receiver import Receiver

PEOPLE = "from tests.cluster.people import make_people; print(*make_people())"

#: The processes of a host of the product, by their role.
COMMANDS = {
    "web": "-m daphne -b {address} -p 8000 --verbosity 0 config.asgi:application",
    "worker": "manage.py run_workers",
    "sweeper": "manage.py run_sweeper",
}

#: Seconds after a start in which no other of these processes is killed.
STARTING = 10.0

#: What makes something fail, and what mends it.
Fault = tuple[Callable[[], None], Callable[[], None]]


class Installation:
    """`hosts` run the product; clients reach it at `address`, a host and a port."""

    hosts: Sequence[Host]
    address: str
    primary: Postgres
    redis_servers: list[Redis]
    disk: Disk
    starter: str
    decider: str

    def __init__(self, folder: Path, receiver: Receiver, **settings: str) -> None:
        self.folder, self.ledger = folder, folder / "ledger.jsonl"
        self.env = {
            "PATH": os.environ["PATH"],
            "DJANGO_SETTINGS_MODULE": "config.settings.base",
            "SECRET_KEY": secrets.token_urlsafe(60),
            "HOLDPOINT_AUDIT_KEY": secrets.token_urlsafe(60),
            "ALLOWED_HOSTS": NAME,
            "HOLDPOINT_SITE_URL": f"https://{NAME}",
            "HOLDPOINT_BEHIND_PROXY": "1",
            "HOLDPOINT_WORKERS": "1",
            "HOLDPOINT_REQUESTS_PER_MINUTE": "0",
            "HOLDPOINT_STARTS_PER_MINUTE": "0",
            "HOLDPOINT_DECISIONS_PER_MINUTE": "0",
            "HOLDPOINT_WEBHOOK_ALLOW_HOSTS": receiver.url.split("/")[2],
            "HOLDPOINT_TOOL_MODULES": "tests.support.toolkit",
            "HOLDPOINT_TEST_LEDGER": str(self.ledger),
            "LOG_LEVEL": "WARNING",
            **settings,
        }
        #: Statuses after which clients repeat a request.
        self.retried = set(RETRIED)
        self._processes: dict[tuple[str, str], Process] = {}
        self._started_at = 0.0
        #: Whether a socket that was closed can ask for its last minute: see `jump_clock`.
        self.clocks_are_right = True

    def create_database(self) -> None:
        with self.primary.connect("postgres") as session:
            session.execute("CREATE ROLE holdpoint_owner LOGIN")
            session.execute("CREATE ROLE holdpoint_app LOGIN")
            session.execute("CREATE DATABASE holdpoint OWNER holdpoint_owner")
        with self.primary.connect("holdpoint") as session:
            session.execute("CREATE EXTENSION vector")

    def migrate(self) -> None:
        """Migrate at the primary itself."""
        address = f"{self.primary.host.address}/holdpoint"
        owner = {
            "DATABASE_URL": f"postgres://holdpoint_owner@{address}",
            "HOLDPOINT_APP_DATABASE_URL": f"postgres://holdpoint_app@{address}",
        }
        host = self.hosts[0]
        self.manage("migrate", "-v", "0", **owner)
        host.run(sys.executable, "-m", "config.database.roles", env={**self.env, **owner})

    def fill(self) -> None:
        """Tools and two people, whose tokens are kept."""
        self.manage("sync_tools")
        people = self.manage("shell", "-v", "0", "-c", PEOPLE)
        self.starter, self.decider = people.split()

    def manage(self, *arguments: str, **more: str) -> str:
        host = self.hosts[0]
        env = {**self.env, "HOLDPOINT_HOME": str(host.folder / "home"), **more}
        return host.run(sys.executable, "manage.py", *arguments, env=env)

    def start(self, host: Host) -> None:
        """A web process, a pool of workers and a sweeper, each with its own log."""
        for name in COMMANDS:
            self._start(host, name)

    def _start(self, host: Host, name: str) -> None:
        env = {**self.env, "HOLDPOINT_HOME": str(host.folder / "home"), "HOLDPOINT_ROLE": name}
        words = COMMANDS[name].format(address=host.address).split()
        command = [sys.executable, *words]
        self._processes[host.name, name] = host.start(f"{name}.log", *command, env=env)
        self._started_at = time.monotonic()

    def start_what_ended(self) -> None:
        """What a service manager does."""
        for host in self.hosts:
            for name in COMMANDS:
                if self._processes[host.name, name].poll() is not None:
                    self._start(host, name)

    def answers(self, host: Host) -> bool:
        try:
            url = f"http://{host.address}:8000/readyz"
            return httpx.get(url, headers=HEADERS, timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def subscribe(self, receiver: Receiver) -> None:
        """Send every event to the receiver."""
        answer = httpx.post(
            f"http://{self.address}/api/v1/webhooks/",
            json={"name": "cluster", "url": receiver.url},
            headers={**HEADERS, "Authorization": f"Bearer {self.starter}"},
            timeout=60,
        )
        assert answer.status_code == 201, answer.text

    def wait_until_ready(self) -> None:
        for host in self.hosts:
            wait_for(lambda host=host: self.answers(host), seconds=180, what=f"{host.name} ready")

    @contextmanager
    def logs_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            for log in sorted(self.folder.glob("*/*.log")):
                print(f"--- {log.parent.name}/{log.name}\n{tail(log, 80)}")  # noqa: T201
            raise

    # --- what goes wrong ------------------------------------------------------------------------

    def faults(self, dice: random.Random) -> dict[str, Fault]:
        """Return the faults beside kills, by name."""

        def nothing() -> None: ...

        found: dict[str, Fault] = {
            "PostgreSQL restarted": (self.restart_postgres, nothing),
            "Redis emptied": (self.flush_redis, nothing),
            "a full disk": (self.fill_disk, self.free_disk),
            "a slow network": (lambda: self.slow_network(dice), self.mend_network),
        }
        if clock.LIBRARY is not None:
            found["a clock that jumps"] = (lambda: self.jump_clock(dice), nothing)
        return found

    def kill_one(self, dice: random.Random) -> bool:
        """SIGKILL to any process of the product: a parent or a child, on any of its hosts.

        Soon after a parent was started only children are killed, which are back at once: otherwise
        a fast pace would kill every parent before it does anything. Returns whether one was killed.
        """
        pids = [pid for host in self.hosts for pid in host.pids()]
        if time.monotonic() - self._started_at < STARTING:
            parents = {process.pid for process in self._processes.values()}
            pids = [pid for pid in pids if pid not in parents]
        with contextlib.suppress(IndexError, psutil.NoSuchProcess):
            process = psutil.Process(dice.choice(pids))
            runs = process.status() != psutil.STATUS_ZOMBIE
            process.kill()
            return runs
        return False

    def restart_postgres(self) -> None:
        self.primary.stop_at_once()
        self.primary.start()

    def flush_redis(self) -> None:
        wait_for(
            lambda: any(server.flush() for server in self.redis_servers), what="Redis is emptied"
        )

    def fill_disk(self) -> None:
        self.disk.fill()

    def free_disk(self) -> None:
        """PostgreSQL ends when it cannot write its log, and at a start without space too."""
        wait_for(self.disk.is_noticed, what="PostgreSQL cannot write")
        self.disk.free()
        self.restart_postgres()

    def jump_clock(self, dice: random.Random) -> None:
        """Set PostgreSQL's clock ten minutes forward, or half a minute back.

        After it a socket that asks for the last seconds may miss what was stored before.
        """
        self.clocks_are_right = False
        self.primary.clock.jump(dice.choice([600, -30]))

    def slow_network(self, dice: random.Random) -> None:
        raise NotImplementedError

    def mend_network(self) -> None:
        raise NotImplementedError
