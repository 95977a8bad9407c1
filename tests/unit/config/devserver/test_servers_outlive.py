"""Servers outlive the process that starts them, without a word about it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from config.devserver.embedded import processes
from tests.architecture.files import ROOT

START = """
import sys
from pathlib import Path
from config.devserver.embedded.processes import spawn_server
print(spawn_server(["sleep", "600"], Path(sys.argv[1])).pid)
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_the_starter_ends_quietly_and_the_server_goes_on(log: Path) -> None:
    command = [sys.executable, "-W", "error", "-X", "dev", "-c", START, str(log)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    server = psutil.Process(int(done.stdout))
    try:
        assert (done.returncode, done.stderr) == (0, "")
        assert processes.is_alive(server)
    finally:
        server.kill()


def test_a_server_that_was_stopped_leaves_nothing_behind(log: Path) -> None:
    server = processes.spawn_server(["sleep", "600"], log)
    processes.stop_process(psutil.Process(server.pid), signal.SIGTERM, 10)
    assert server.returncode == -signal.SIGTERM
    assert server not in processes._children
    assert not psutil.pid_exists(server.pid)
