"""A replicated installation: two hosts of the product, a proxy and the servers."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import redis

from config.devserver.embedded.layout import Layout
from config.devserver.embedded.processes import tail
from tests.cluster import servers
from tests.cluster.load import NAME
from tests.cluster.network import Host, Network, Process
from tests.cluster.servers import Bouncer, Postgres, Redis
from tests.support.processes import wait_for
from tests.support.webhook_receiver import Receiver

HOSTS = ("proxy", "app1", "app2", "pooler", "db1", "db2")
PEOPLE = """
from django.contrib.auth.models import Group, User
from workflows.permissions.tokens import create_token
for name, role, scopes in (
    ("starter", "operator", ["read", "run"]), ("decider", "reviewer", ["read", "decide"])
):
    person = User.objects.create_user(name, email=f"{name}@example.com")
    person.groups.add(Group.objects.get_or_create(name=role)[0])
    print(create_token(user=person, name="cluster", scopes=scopes)[1])
"""

#: The processes of a host of the product, by their role.
COMMANDS = {
    "web": "-m daphne -b 0.0.0.0 -p 8000 --verbosity 0 config.asgi:application",
    "worker": "manage.py run_workers",
    "sweeper": "manage.py run_sweeper",
}


class Cluster:
    """The servers, and the product on two hosts."""

    def __init__(
        self, net: Network, hosts: list[Host], folder: Path, receiver: Receiver, **settings: str
    ) -> None:
        self.proxy, self.app1, self.app2, pooler, db1, db2 = hosts
        layout = Layout.of(folder)
        self.primary, self.standby = Postgres(db1, layout), Postgres(db2, layout)
        self.bouncer = Bouncer(pooler, layout, database="holdpoint", role="holdpoint_app")
        self._start_postgres(net.range)
        self.redis = Redis(db1)
        self.other_redis = Redis(db2, self.redis)
        servers.watch([self.proxy, db1, db2], self.redis)
        servers.balance(self.proxy, web=[self.app1, self.app2], redis=[db1, db2])
        self.ledger = folder / "ledger.jsonl"
        self.env = {
            "PATH": os.environ["PATH"],
            "DJANGO_SETTINGS_MODULE": "config.settings.base",
            "SECRET_KEY": secrets.token_urlsafe(60),
            "HOLDPOINT_AUDIT_KEY": secrets.token_urlsafe(60),
            "ALLOWED_HOSTS": NAME,
            "HOLDPOINT_SITE_URL": f"https://{NAME}",
            "HOLDPOINT_BEHIND_PROXY": "1",
            "DATABASE_URL": f"postgres://holdpoint_app@{self.bouncer.address}/holdpoint",
            "HOLDPOINT_DB_TRANSACTION_POOLING": "1",
            "REDIS_URL": f"redis://{self.proxy.address}:6379/0",
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
        self._processes: dict[tuple[str, str], Process] = {}
        self.starter, self.decider = self._install()

    def _start_postgres(self, addresses: str) -> None:
        self.primary.initialize(addresses)
        self.primary.start()
        with self.primary.connect("postgres") as session:
            session.execute("CREATE ROLE holdpoint_owner LOGIN")
            session.execute("CREATE ROLE holdpoint_app LOGIN")
            session.execute("CREATE DATABASE holdpoint OWNER holdpoint_owner")
        with self.primary.connect("holdpoint") as session:
            session.execute("CREATE EXTENSION vector")

    def _install(self) -> list[str]:
        """Migrate at the primary itself, then replicate; returns the tokens of two people."""
        address = f"{self.primary.host.address}/holdpoint"
        owner = {
            "DATABASE_URL": f"postgres://holdpoint_owner@{address}",
            "HOLDPOINT_APP_DATABASE_URL": f"postgres://holdpoint_app@{address}",
        }
        self.manage(self.app1, "migrate", "-v", "0", **owner)
        self.app1.run(sys.executable, "-m", "config.database.roles", env={**self.env, **owner})
        self.standby.follow(self.primary)
        self.standby.start()
        self.primary.replicate_synchronously()
        self.bouncer.point_at(self.primary)
        self.manage(self.app1, "sync_tools")
        return self.manage(self.app1, "shell", "-v", "0", "-c", PEOPLE).split()

    def manage(self, host: Host, *arguments: str, **more: str) -> str:
        env = {**self.env, "HOLDPOINT_HOME": str(host.folder / "home"), **more}
        return host.run(sys.executable, "manage.py", *arguments, env=env)

    def start(self, host: Host) -> None:
        """A web process, a pool of one worker and a sweeper, each with its own log."""
        for name in COMMANDS:
            self._start(host, name)

    def _start(self, host: Host, name: str) -> None:
        env = {**self.env, "HOLDPOINT_HOME": str(host.folder / "home"), "HOLDPOINT_ROLE": name}
        command = [sys.executable, *COMMANDS[name].split()]
        self._processes[host.name, name] = host.start(f"{name}.log", *command, env=env)

    def start_what_ended(self) -> None:
        """What a service manager does."""
        for host in (self.app1, self.app2):
            for name in COMMANDS:
                if self._processes[host.name, name].poll() is not None:
                    self._start(host, name)

    def answers(self, host: Host) -> bool:
        headers = {"Host": NAME, "X-Forwarded-Proto": "https"}
        try:
            url = f"http://{host.address}:8000/readyz"
            return httpx.get(url, headers=headers, timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def subscribe(self, receiver: Receiver) -> None:
        """Send every event to the receiver."""
        answer = httpx.post(
            f"http://{self.proxy.address}/api/v1/webhooks/",
            json={"name": "cluster", "url": receiver.url},
            headers={"Host": NAME, "Authorization": f"Bearer {self.starter}"},
        )
        assert answer.status_code == 201, answer.text

    def wait_until_ready(self) -> None:
        for host in (self.app1, self.app2):
            wait_for(lambda host=host: self.answers(host), seconds=180, what=f"{host.name} ready")

    @contextmanager
    def logs_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            for log in sorted(self.proxy.folder.parent.glob("*/*.log")):
                print(f"--- {log.parent.name}/{log.name}\n{tail(log, 80)}")  # noqa: T201
            raise

    # --- what is lost ---------------------------------------------------------------------------

    def fail_over_postgres(self) -> None:
        self.primary.stop_at_once()
        self.standby.promote()
        self.bouncer.point_at(self.standby)
        self.primary = self.standby

    def fail_over_redis(self) -> None:
        self.redis.process.kill()
        wait_for(lambda: self.other_redis.role() == "master", seconds=60, what="Sentinel promotes")
        self.redis = self.other_redis

    def restart_postgres(self) -> None:
        self.primary.stop_at_once()
        self.primary.start()

    def flush_redis(self) -> None:
        with redis.Redis(self.redis.host.address) as client:
            client.flushall()

    def kill_one(self, dice: random.Random) -> None:
        """SIGKILL to any process of the product: a parent or a child, on either host."""
        pids = [pid for host in (self.app1, self.app2) for pid in host.pids()]
        if pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(dice.choice(pids), signal.SIGKILL)
