"""A replicated installation: two hosts of the product, a proxy and the servers."""

from __future__ import annotations

import random
from pathlib import Path

from config.devserver.embedded.layout import Layout
from tests.cluster import servers
from tests.cluster.disk import FileSystem
from tests.cluster.installation import Fault, Installation
from tests.cluster.network import NamespaceHost, Network
from tests.cluster.servers import Bouncer, Postgres, Redis
from tests.support.processes import wait_for
from tests.support.webhook_receiver import Receiver

HOSTS = ("proxy", "app1", "app2", "pooler", "db1", "db2")
#: The file system of the first PostgreSQL, which a test can fill: its log alone may take 1 GB.
MEBIBYTES = 1536


class Cluster(Installation):
    """The servers, and the product on two hosts."""

    def __init__(
        self,
        net: Network,
        hosts: list[NamespaceHost],
        folder: Path,
        receiver: Receiver,
        **settings: str,
    ) -> None:
        self.proxy, self.app1, self.app2, self.pooler, db1, db2 = hosts
        self.hosts = (self.app1, self.app2)
        self.address = self.proxy.address
        layout = Layout.of(folder)
        self.primary = Postgres(db1, layout, mebibytes=MEBIBYTES)
        self.standby = Postgres(db2, layout)
        self.disk = FileSystem(self.primary)
        self.bouncer = Bouncer(self.pooler, layout, database="holdpoint", role="holdpoint_app")
        self.primary.initialize(net.range)
        self.primary.start()
        first_redis = Redis(db1)
        self.redis_servers = [first_redis, Redis(db2, first_redis)]
        servers.watch([self.proxy, db1, db2], first_redis)
        servers.balance(self.proxy, web=[self.app1, self.app2], redis=[db1, db2])
        more = {
            "DATABASE_URL": f"postgres://holdpoint_app@{self.bouncer.address}/holdpoint",
            "HOLDPOINT_DB_TRANSACTION_POOLING": "1",
            "REDIS_URL": f"redis://{self.proxy.address}:6379/0",
        }
        super().__init__(folder, receiver, **more, **settings)
        self.create_database()
        self.migrate()
        self.standby.follow(self.primary)
        self.standby.start()
        self.primary.replicate_synchronously()
        self.bouncer.point_at(self.primary)
        self.fill()
        self._slow: NamespaceHost | None = None
        self._cut: NamespaceHost | None = None

    # --- what goes wrong ------------------------------------------------------------------------

    def fail_over_postgres(self) -> None:
        self.primary.stop_at_once()
        self.standby.promote()
        self.bouncer.point_at(self.standby)
        self.primary = self.standby

    def fail_over_redis(self) -> None:
        primary = wait_for(self._primary_redis, seconds=60, what="a Redis is primary")
        primary.process.kill()
        wait_for(self._primary_redis, seconds=60, what="Sentinel promotes")

    def _primary_redis(self) -> Redis | None:
        """Sentinel also promotes the other one by itself, if the machine is busy."""
        roles = ((server, server.role()) for server in self.redis_servers)
        return next((server for server, role in roles if role == "master"), None)

    def faults(self, dice: random.Random) -> dict[str, Fault]:
        return {
            **super().faults(dice),
            "a host cut off": (lambda: self.cut_off(dice), self.plug_in),
        }

    def cut_off(self, dice: random.Random) -> None:
        self._cut = dice.choice([self.app1, self.app2])
        self._cut.unplug()

    def plug_in(self) -> None:
        if self._cut is not None:
            self._cut.plug_in()
            self._cut = None

    def slow_network(self, dice: random.Random) -> None:
        """Slow one host of the product, or the one through which all reach PostgreSQL."""
        self._slow = dice.choice([self.app1, self.app2, self.pooler])
        self._slow.slow_down()

    def mend_network(self) -> None:
        if self._slow is not None:
            self._slow.speed_up()
            self._slow = None
