"""A whole installation in processes: web, workers, a sweeper and Redis, all killable."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil

from config.devserver.embedded.layout import Layout
from config.devserver.embedded.redis import Redis
from tests.support.ports import free_port
from tests.support.processes import ROOT, end, environment, start, wait_for

Process = subprocess.Popen[bytes]

SHORT_TIMES = {
    "HOLDPOINT_WEBHOOK_ALLOW_LOOPBACK": "1",
    "HOLDPOINT_WEBHOOK_POLL_SECONDS": "0.05",
    "HOLDPOINT_WEBHOOK_BACKOFF_SECONDS": "0.05",
    "HOLDPOINT_WEBHOOK_MAX_BACKOFF_SECONDS": "0.5",
    "HOLDPOINT_WEBHOOK_TIMEOUT_SECONDS": "1",
    "HOLDPOINT_WEBHOOK_LEASE_SECONDS": "3",
    "HOLDPOINT_STARTS_PER_MINUTE": "0",
    "HOLDPOINT_REQUESTS_PER_MINUTE": "0",
}


class Installation:
    """Two web processes, three pools of one worker, a sweeper; each with its own settings."""

    def __init__(self, home: Path) -> None:
        layout = Layout.of(home)
        self.redis = Redis(layout)
        self.redis.start()
        self.env = {**SHORT_TIMES, "REDIS_URL": layout.urls.redis}
        self.ports = [free_port(), free_port()]
        self.webs = [self._web(port) for port in self.ports]
        self.pools = [self._pool() for _ in range(3)]
        self.sweeper = self._sweeper()

    def _web(self, port: int) -> Process:
        command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port)]
        command += ["--verbosity", "0", "config.asgi:application"]
        env = environment(**self.env, HOLDPOINT_ROLE="web")
        return subprocess.Popen(command, cwd=ROOT, env=env, start_new_session=True)

    def _pool(self) -> Process:
        return start("run_workers", "--workers", "1", HOLDPOINT_ROLE="worker", **self.env)

    def _sweeper(self) -> Process:
        return start("run_sweeper", HOLDPOINT_ROLE="sweeper", **self.env)

    def wait_until_up(self) -> None:
        for port in self.ports:
            wait_for(lambda port=port: self.ready(port), seconds=60, what=f"web on {port}")

    def ready(self, port: int) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5).status_code == 200
        return False

    # --- what is done to it ---------------------------------------------------------------------

    def kill_web(self, index: int, *, again: bool) -> None:
        kill(self.webs[index])
        if again:
            self.webs[index] = self._web(self.ports[index])

    def kill_pool(self, index: int, *, again: bool) -> None:
        kill(self.pools[index])
        if again:
            self.pools[index] = self._pool()

    def kill_sweeper(self) -> None:
        kill(self.sweeper)
        self.sweeper = self._sweeper()

    def kill_redis(self) -> None:
        process = self.redis.process()
        assert process is not None
        process.kill()
        process.wait(10)
        self.redis.start()

    def close(self) -> None:
        for process in (*self.webs, *self.pools, self.sweeper):
            if process.poll() is None:
                end(process)
        self.redis.stop()


def kill(process: Process) -> None:
    """A process and all it started, as a power cut would."""
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)
    for each in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()


@contextlib.contextmanager
def installation(home: Path) -> Iterator[Installation]:
    made = Installation(home)
    try:
        yield made
    finally:
        made.close()
