"""What one start of the product consists of: its settings, its steps, its children."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from config.devserver.embedded import EmbeddedServers
from config.devserver.supervision.preflight_checks import StartRefused
from config.paths import BASE_DIR, DEFAULT_HOME
from config.settings.env import env_int, env_path, env_str
from workflows.common import parent_death

MANAGE = [sys.executable, str(BASE_DIR / "manage.py")]


@dataclass(frozen=True)
class Plan:
    """Read once from the environment. `servers` is None when both URLs are given."""

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
        """Name, command and environment of each process, in the order of their start."""
        web = [sys.executable, "-m", "daphne", "-b", self.host, "-p", str(self.port)]
        web += ["--http-timeout", "120", "--websocket_timeout", "86400"]
        web += ["--application-close-timeout", "3"]
        web += ["--access-log", str(self.home / "logs" / "access.log"), "config.asgi:application"]
        return [
            ("web", web, self.env_for("web")),
            ("workers", [*MANAGE, "run_workers"], self.env_for("worker")),
            ("sweeper", [*MANAGE, "run_sweeper"], self.env_for("sweeper")),
        ]


def read_plan() -> Plan:
    """Raises `StartRefused` or `ImproperlyConfigured` for settings that do not fit together."""
    home = env_path("HOLDPOINT_HOME", DEFAULT_HOME)
    env = dict(os.environ) | {"HOLDPOINT_HOME": str(home), "PYTHONUNBUFFERED": "1"}
    env.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.dev")
    # No process that is started with this environment outlives us.
    env[parent_death.VARIABLE] = str(os.getpid())
    given = [name for name in ("DATABASE_URL", "REDIS_URL") if _given(name)]
    if len(given) == 1:
        raise StartRefused(
            f"{given[0]} is set, its partner is not. Set both DATABASE_URL and REDIS_URL to use "
            "your own servers, or none of them to use the embedded ones."
        )
    servers = None if given else EmbeddedServers(home)
    # Taken out: the tables' owner may switch off what protects the audit log.
    owner_url = env.pop("DATABASE_OWNER_URL", "")
    if servers is not None:
        urls = servers.layout.urls
        env |= {"DATABASE_URL": urls.database, "REDIS_URL": urls.redis}
        owner_url = urls.owner
    return Plan(
        home=home,
        host=env_str("HOLDPOINT_BIND", "127.0.0.1"),
        port=env_int("HOLDPOINT_PORT", 8000, minimum=1, maximum=65535),
        servers=servers,
        env=env,
        owner_url=owner_url,
    )


def _given(name: str) -> bool:
    return bool(os.environ.get(name) or os.environ.get(f"{name}_FILE"))
