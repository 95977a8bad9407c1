"""The processes that the supervisor starts, with their commands and environments."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from config.devserver.embedded import EmbeddedServers
from config.devserver.preflight import StartRefused
from config.paths import BASE_DIR
from config.settings.topics import Installation, MakeRun
from workflows.common import parent_death

MANAGE = [sys.executable, str(BASE_DIR / "manage.py")]


@dataclass(frozen=True)
class Plan:
    """Settings of one start, from the environment. `servers` is None if both URLs are set."""

    home: Path
    host: str
    port: int
    servers: EmbeddedServers | None
    env: dict[str, str]
    owner_url: str

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def env_for(self, role: str) -> dict[str, str]:
        return self.env | {"HOLDPOINT_ROLE": role}

    def children(self) -> list[tuple[str, list[str], dict[str, str]]]:
        """Return name, command and environment of each process."""
        web = [sys.executable, "-m", "daphne", "-b", self.host, "-p", str(self.port)]
        web += ["--http-timeout", "120", "--websocket_timeout", "86400"]
        web += ["--application-close-timeout", "3"]
        # No access log: it would have queries, with the codes of sign-ins.
        web += ["--verbosity", "0", "config.asgi:application"]
        children = [
            ("web", web, self.env_for("web")),
            ("workers", [*MANAGE, "run_workers"], self.env_for("worker")),
            ("sweeper", [*MANAGE, "run_sweeper"], self.env_for("sweeper")),
        ]
        if self.servers is not None:
            watch = [sys.executable, "-m", "config.devserver.embedded", "watch"]
            children.append(("databases", watch, self.env))
        return children


def read_plan() -> Plan:
    """Read the environment; raises `StartRefused` or `ImproperlyConfigured`."""
    home = Installation.read().home
    address = MakeRun.read()
    env = dict(os.environ) | {"HOLDPOINT_HOME": str(home), "PYTHONUNBUFFERED": "1"}
    env.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.dev")
    # Processes with this environment end when the supervisor ends.
    env[parent_death.VARIABLE] = str(os.getpid())
    given = [name for name in ("DATABASE_URL", "REDIS_URL") if _given(name)]
    if len(given) == 1:
        raise StartRefused(
            f"Only {given[0]} is set. Set both DATABASE_URL and REDIS_URL to use your own "
            "servers, or neither to use the embedded ones."
        )
    servers = None if given else EmbeddedServers(home)
    # Not passed to the processes: the owner of the tables can disable the audit log's triggers.
    owner_url = env.pop("DATABASE_OWNER_URL", "")
    if servers is not None:
        urls = servers.layout.urls
        env |= {"DATABASE_URL": urls.database, "REDIS_URL": urls.redis}
        owner_url = urls.owner
    return Plan(
        home=home,
        host=address.bind,
        port=address.port,
        servers=servers,
        env=env,
        owner_url=owner_url,
    )


def _given(name: str) -> bool:
    return bool(os.environ.get(name) or os.environ.get(f"{name}_FILE"))
