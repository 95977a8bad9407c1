"""Both embedded servers of one home folder."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from config.devserver.embedded.layout import Layout, Urls
from config.devserver.embedded.postgres import Postgres
from config.devserver.embedded.redis import Redis


class EmbeddedServers:
    """PostgreSQL and Redis below `home`.

    Several homes live side by side. Servers outlive the process that started them until `stop()`;
    a later `start()` takes over what still runs and repairs what does not.
    """

    def __init__(self, home: Path | str, *, durable: bool = True) -> None:
        self.layout = Layout.of(home)
        self.postgres = Postgres(self.layout, durable=durable)
        self.redis = Redis(self.layout)

    def start(self) -> Urls:
        """Brings both up (about two seconds the first time); raises `EmbeddedError`."""
        with self._one_at_a_time():
            self.postgres.start()
            self.redis.start()
        return self.layout.urls

    def repair(self) -> list[str]:
        """Starts again what died; the names of the servers that had to be."""
        repaired = []
        with self._one_at_a_time():
            if self.postgres.process() is None:
                self.postgres.start()
                repaired.append("postgres")
            if self.redis.process() is None:
                self.redis.start()
                repaired.append("redis")
        return repaired

    def stop(self) -> None:
        """Stops both; committed rows are kept."""
        with self._one_at_a_time():
            self.redis.stop()
            self.postgres.stop()

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        """Keeps two processes from starting the same servers at once."""
        self.layout.home.mkdir(parents=True, exist_ok=True)
        with (self.layout.home / ".servers.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
