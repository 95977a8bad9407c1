"""No server process outlives the process that started it, however that one ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from workflows.tools.mcp_client import McpServerSpec, close_pool

from .conftest import SERVER, Journal, has_ended, until

_OWNER = """
import sys, os, signal
from workflows.common import background_loop
from workflows.tools.mcp_client import McpServerSpec, pool

spec = McpServerSpec("own", "stdio", command=sys.executable, args=tuple(sys.argv[2:]),
                     env={"JOURNAL": os.environ["JOURNAL"]},
                     read_paths=(os.path.dirname(sys.argv[2]),),
                     write_paths=(os.environ["JOURNAL"],))
background_loop.run(pool().call(spec, "add", {"a": 1, "b": 1}), 30)
if sys.argv[1] == "fork" and not (child := os.fork()):
    os.close(1)
    signal.pause()
print(child if sys.argv[1] == "fork" else "ready", flush=True)
if sys.argv[1] != "leave":
    signal.pause()
"""


def _start(journal: Journal, how: str, *flags: str) -> subprocess.Popen[str]:
    """A process that has called a tool once and then returns ("leave") or waits ("wait")."""
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, how, str(SERVER), *flags],
        env={
            "JOURNAL": str(journal.path),
            "PYTHONPATH": str(Path.cwd()),
            "PATH": "/usr/bin:/bin",
            "DJANGO_SETTINGS_MODULE": "config.settings.test",
        },
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[5],
    )
    assert owner.stdout is not None
    with owner.stdout:
        said = owner.stdout.readline().strip()
    if how == "fork":
        journal.forked = int(said)
    else:
        assert said == "ready"
    return owner


def _all_gone(journal: Journal) -> Callable[[], bool]:
    assert journal.pids
    return lambda: all(has_ended(pid) for pid in journal.pids)


@pytest.mark.parametrize("flags", [(), ("--helper",), ("--helper", "--stubborn")])
def test_after_kill_9_of_the_owner(journal: Journal, flags: tuple[str, ...]) -> None:
    owner = _start(journal, "wait", *flags)
    assert not any(has_ended(pid) for pid in journal.pids)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    until(_all_gone(journal), "server and helper end with their owner")


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal at a parent's end")
def test_after_kill_9_of_the_guard(journal: Journal) -> None:
    owner = _start(journal, "wait", "--stubborn")
    [guard] = psutil.Process(owner.pid).children()
    guard.kill()
    try:
        until(_all_gone(journal), "the server ends with its guard")
    finally:
        owner.kill()
        owner.wait()


def test_after_kill_9_of_an_owner_whose_child_holds_the_pipe(journal: Journal) -> None:
    owner = _start(journal, "fork")
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    try:
        until(_all_gone(journal), "the server ends with its owner")
        assert psutil.pid_exists(journal.forked)
    finally:
        os.kill(journal.forked, signal.SIGKILL)


def test_after_an_ordinary_end(journal: Journal) -> None:
    owner = _start(journal, "leave", "--helper")
    assert owner.wait(20) == 0
    until(_all_gone(journal), "server and helper end with their owner")


def test_after_the_pool_is_closed(
    spec: Callable[..., McpServerSpec], call: Callable[..., Any], journal: Journal
) -> None:
    call(spec("--helper", "--stubborn"), "add", a=1, b=1)
    assert len(journal.pids) == 2
    close_pool()
    until(_all_gone(journal), "server and helper end with the pool")


def test_helpers_end_with_a_server_that_was_killed(
    spec: Callable[..., McpServerSpec], call: Callable[..., Any], journal: Journal
) -> None:
    pid = call(spec("--helper"), "pid")["pid"]
    os.kill(pid, signal.SIGKILL)
    until(_all_gone(journal), "the helper ends with the server")
