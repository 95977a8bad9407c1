"""`python -m config.observability.alive`: exit with 1 if the process of this container is stuck.

HOLDPOINT_ROLE says which process it is, or the argument `webhooks`, because `send_webhooks` has the
role of the sweeper. The check reads Redis directly and does not load Django, which would take
longer than the check. While Redis is unavailable, all processes but web count as alive: to restart
them would not help.
"""

import os
import socket
import sys
import urllib.request
from typing import Any

import redis

from config.settings.topics import Redis, Web

#: The port of the image's command.
WEB = "http://127.0.0.1:8000/livez"
SECONDS = 5.0
#: A pool of workers reports every five seconds, `send_webhooks` every ten.
REPORT_SECONDS = 60.0
#: The sweeper reports in every round.
SWEEPER_SECONDS = 60.0


def main() -> int:
    role = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("HOLDPOINT_ROLE") or "web"
    problem = _problem(role)
    if problem:
        print(problem, file=sys.stderr)  # noqa: T201 - shown by the container's health log
    return 1 if problem else 0


def _problem(role: str) -> str:
    if role == "web":
        return web_problem(WEB)
    client = redis.Redis.from_url(
        Redis.read().redis_url, socket_timeout=SECONDS, socket_connect_timeout=SECONDS
    )
    try:
        if role == "sweeper":
            return sweeper_problem(client)
        return webhooks_problem(client) if role == "webhooks" else workers_problem(client)
    except redis.RedisError:
        return ""
    finally:
        client.close()


def web_problem(address: str) -> str:
    """Return why the web process does not answer; "" if it does."""
    host = next((each for each in Web.read().allowed_hosts if each != "*"), "localhost")
    request = urllib.request.Request(address, headers={"Host": host.removeprefix(".")})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=SECONDS):  # noqa: S310 - our own http address
            return ""
    except OSError as error:
        return f"{address} does not answer: {error}"


def workers_problem(client: Any) -> str:
    """Return why no pool of this machine reported its workers within a minute; "" if one did."""
    return _late(client, "the pool of workers", _newest(client, "workers"), REPORT_SECONDS)


def webhooks_problem(client: Any) -> str:
    """Return why no `send_webhooks` of this machine reported within a minute; "" if one did."""
    return _late(client, "the sender of webhooks", _newest(client, "webhooks"), REPORT_SECONDS)


def _newest(client: Any, kind: str) -> int:
    """Return the time of the newest report of a process of this machine; 0 without one."""
    name = f"{socket.gethostname()}:"
    reports = client.hgetall(f"holdpoint:count:{kind}")
    return max(
        (
            int(value.decode().partition("@")[2])
            for process, value in reports.items()
            if process.decode().startswith(name)
        ),
        default=0,
    )


def sweeper_problem(client: Any) -> str:
    """Return why the sweeper has had no recent round; "" if it has."""
    beat = client.get("holdpoint:beat:sweeper")
    return _late(client, "the sweeper", int(beat or 0), SWEEPER_SECONDS)


def _late(client: Any, name: str, newest: int, seconds: float) -> str:
    now, _ = client.time()
    age = now - newest
    return "" if age <= seconds else f"{name} has not reported for {min(age, 3600):.0f} s"


if __name__ == "__main__":
    sys.exit(main())
