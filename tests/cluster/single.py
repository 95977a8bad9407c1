"""An installation on the loopback: one host of the product, PostgreSQL and Redis.

It needs neither root nor Debian packages. Three relays stand for the network. Its database is a
copy of the test database, which takes a tenth of the time of migrations.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from django.conf import settings as django_settings

from config.devserver.embedded.layout import SUPERUSER, Layout
from tests.cluster.disk import FileLimit
from tests.cluster.installation import Fault, Installation
from tests.cluster.network import Host, loopback
from tests.cluster.people import make_people
from tests.cluster.relay import Relay
from tests.cluster.servers import Postgres, Redis
from tests.support import toolkit  # noqa: F401 - declares its tools
from tests.support.catalogue import stock_catalogue
from tests.support.processes import database_url
from tests.support.webhook_receiver import Receiver

HOSTS = ("app", "db", "network")


class Single(Installation):
    """One web process, a pool of workers and a sweeper."""

    def __init__(
        self, hosts: list[Host], relays: list[Relay], folder: Path, receiver: Receiver,
        **settings: str,
    ) -> None:  # fmt: skip
        app, db, network = hosts
        self.hosts, self.relays = [app], relays
        self.address = f"{network.address}:8000"
        layout = Layout.of(folder)
        self.primary = Postgres(db, layout)
        self.primary.initialize("127.0.0.0/8")
        self.primary.start()
        self.disk = FileLimit(self.primary)
        self.redis_servers = [Redis(db, program=layout.redis_server)]
        more = {
            "DATABASE_URL": f"postgres://{SUPERUSER}@{network.address}:5432/holdpoint",
            "REDIS_URL": f"redis://{network.address}:6379/0",
            "SECRET_KEY": django_settings.SECRET_KEY,
        }
        super().__init__(folder, receiver, **more, **settings)
        with self.primary.connect("postgres") as session:
            session.execute("CREATE DATABASE holdpoint")
        stock_catalogue()
        self.starter, self.decider = make_people()
        self.primary.load("holdpoint", database_url())

    def faults(self, dice: random.Random) -> dict[str, Fault]:
        return {**super().faults(dice), "Redis killed": (self.kill_redis, lambda: None)}

    def fill_disk(self) -> None:
        # PostgreSQL calls a limit of its files an internal error, so the product does.  It stays
        # among the answers that are repeated: one may arrive when the fault is over.
        self.retried.add(500)
        super().fill_disk()

    def kill_redis(self) -> None:
        (redis,) = self.redis_servers
        redis.process.kill()
        redis.process.wait(30)
        redis.start()

    def slow_network(self, dice: random.Random) -> None:
        """Delay what one relay forwards, or cut its connections."""
        relay = dice.choice(self.relays)
        if dice.random() < 0.5:
            relay.cut()
        relay.delay = dice.choice([0.02, 0.2])

    def mend_network(self) -> None:
        for relay in self.relays:
            relay.delay = 0.0


@contextmanager
def single(folder: Path, receiver: Receiver, **settings: str) -> Iterator[Single]:
    with ExitStack() as stack:
        hosts = loopback(folder, HOSTS)
        for host in hosts:
            stack.callback(host.kill)
        app, db, network = hosts
        relays = [
            stack.enter_context(Relay((network.address, port), (host.address, port)))
            for host, port in ((app, 8000), (db, 5432), (db, 6379))
        ]
        yield Single(hosts, relays, folder, receiver, **settings)
