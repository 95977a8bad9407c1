"""A Dask cluster on loopback, in processes that know nothing of this installation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.workflows.conftest import engine as engine
from tests.integration.workflows.conftest import ledger as ledger
from tests.support import remote_tools  # noqa: F401  (importing it declares its tools)
from tests.support.ports import free_port
from tests.support.processes import ROOT, wait_for
from workflows.remote.port import RunnerUnavailable
from workflows.remote.registry import configured_runners

#: What the processes of the cluster get of the environment.
KNOWN = ("PATH", "HOME", "LANG", "TMPDIR")


class Cluster:
    """A scheduler and one worker."""

    def __init__(self, folder: Path, ledger: Path) -> None:
        self._folder = folder
        self._environment = {
            **{name: os.environ[name] for name in KNOWN if name in os.environ},
            "PYTHONPATH": str(ROOT),
            "HOLDPOINT_TEST_LEDGER": str(ledger),
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",
            "OMP_NUM_THREADS": "1",
        }
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        self.start_scheduler()
        self.start_worker()

    def start_scheduler(self) -> None:
        port = self.address.rpartition(":")[2]
        self._start("scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")

    def start_worker(self) -> None:
        options = ("--no-nanny", "--no-dashboard", "--nthreads", "2", "--host", "127.0.0.1")
        folder = ("--local-directory", str(self._folder))
        self._start("worker", self.address, *options, *folder)

    def _start(self, kind: str, *arguments: str) -> None:
        self._processes[kind] = subprocess.Popen(
            [sys.executable, "-m", "dask", kind, *arguments],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self, kind: str) -> None:
        process = self._processes.pop(kind)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for kind in sorted(self._processes, reverse=True):
            self.kill(kind)


@pytest.fixture
def cluster(tmp_path: Path, ledger: Path, settings: Any) -> Iterator[Cluster]:
    """A cluster that this process uses as its runner."""
    made = Cluster(tmp_path, ledger)
    settings.HOLDPOINT = {**settings.HOLDPOINT, "dask_scheduler": made.address}
    made.start()
    try:
        wait_for(_is_up, what="the scheduler")
        yield made
    finally:
        made.stop()


def _is_up() -> bool:
    try:
        configured_runners()["dask"].states()
    except RunnerUnavailable:
        return False
    return True
