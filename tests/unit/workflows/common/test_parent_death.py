"""A process ends with the one that started it, however that one ends."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from config.devserver.embedded.processes import is_alive, wait_until
from tests.support.processes import ending_with_us
from workflows.common.parent_death import VARIABLE

ROOT = Path(__file__).parents[4]

#: A parent that starts a child from its main thread, says its id, and waits.
PARENT = """
import subprocess, sys, time
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
print(child.pid, child.stdout.readline(), flush=True)
time.sleep(600)
"""
CHILD = """
import os, time
from workflows.common import parent_death
parent_death.end_with(os.getppid())
print("up", flush=True)
time.sleep(600)
"""
WITHOUT_THE_KERNEL = CHILD.replace(
    "parent_death.end_with(",
    "parent_death._ask_kernel = lambda: False; parent_death.LOOK_SECONDS = 0.05;"
    " parent_death.end_with(",
)
#: A program that asks for nothing, as the tests start it.
UNAWARE = ending_with_us(
    [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
)
PYTHON = [sys.executable, "-c"]
NEEDS_SETPRIV = pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")


@pytest.fixture(
    params=[
        pytest.param([*PYTHON, CHILD], id="kernel"),
        pytest.param([*PYTHON, WITHOUT_THE_KERNEL], id="thread"),
        pytest.param(UNAWARE, id="tests", marks=NEEDS_SETPRIV),
    ]
)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """A parent and its child."""
    with subprocess.Popen(
        [*PYTHON, PARENT, *request.param],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        try:
            assert parent.stdout is not None
            number, said = parent.stdout.readline().split()
            assert said == "up"
            child = psutil.Process(int(number))
            yield parent, child
            parent.kill()
            if is_alive(child):
                child.kill()
        finally:
            parent.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_ends_with_its_parent(
    pair: tuple[subprocess.Popen[str], psutil.Process], number: signal.Signals
) -> None:
    parent, child = pair
    assert is_alive(child)
    parent.send_signal(number)
    parent.wait()
    assert wait_until(lambda: not is_alive(child), 30)


def run(code: str, **environment: str) -> int:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        check=False,
        timeout=30,
    ).returncode


def test_a_child_of_a_dead_parent_ends_at_once() -> None:
    code = (
        "from workflows.common.parent_death import end_with; "
        "end_with(4_194_305); print('still here')"
    )
    assert run(code) == -signal.SIGKILL


STARTED = (
    "from workflows.common.parent_death import end_with_starter; end_with_starter(); import os; "
)


@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ({}, 0),
        ({VARIABLE: str(os.getpid())}, 0),
        ({VARIABLE: "4194305"}, -signal.SIGKILL),
        ({VARIABLE: "no number"}, 0),
    ],
)
def test_only_a_marked_parent_is_followed(environment: dict[str, str], code: int) -> None:
    # The variable is for this process, whose own children have another parent.
    assert run(f"{STARTED} assert {VARIABLE!r} not in os.environ", **environment) == code
