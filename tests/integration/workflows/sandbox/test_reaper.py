"""Programs in the sandbox end with their worker, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from config.devserver.embedded.processes import is_alive, wait_until
from workflows.sandbox import reaper

#: A worker that runs one program without end in each language, side by side.
WORKER = """
import pathlib, sys, threading
from workflows.sandbox import CodeRequest, SandboxConfig, run_code

config = SandboxConfig(temp_root=pathlib.Path(sys.argv[1]), allow_root=True)
programs = {"typescript": "while (true) {}\\nreturn 0", "python": "while True:\\n    pass"}

def run(language):
    run_code(CodeRequest(language, programs[language], timeout_seconds=300, config=config))

for language in sys.argv[2:]:
    threading.Thread(target=run, args=[language], daemon=True).start()
threading.Event().wait()
"""
NAMES = {"typescript": "deno", "python": "monty"}


@contextmanager
def worker(
    folder: Path, *languages: str
) -> Iterator[tuple[subprocess.Popen[bytes], list[psutil.Process]]]:
    """A worker whose programs are at work, and everything that it has started."""
    argv = [sys.executable, "-c", WORKER, str(folder), *languages]
    with subprocess.Popen(argv, cwd=Path(__file__).parents[4]) as process:
        below: list[psutil.Process] = []

        def at_work() -> bool:
            below[:] = psutil.Process(process.pid).children(recursive=True)
            busy = [each.name() for each in below if each.cpu_times().user > 0.3]
            return all(any(NAMES[name] in each for each in busy) for name in languages)

        try:
            assert wait_until(at_work, 60)
            yield process, below
        finally:
            process.kill()
            for each in below:
                if is_alive(each):
                    each.kill()


def all_gone(processes: list[psutil.Process]) -> bool:
    return not any(is_alive(each) for each in processes)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_programs_end_with_their_worker(tmp_path: Path, number: signal.Signals) -> None:
    with worker(tmp_path, "typescript", "python") as (process, below):
        assert len(below) >= 3
        process.send_signal(number)
        process.wait()
        assert wait_until(lambda: all_gone(below), 30), below


def test_programs_outlive_neither_worker_nor_its_process_group(tmp_path: Path) -> None:
    """A supervisor that kills the worker's group must not take the reaper with it."""
    with worker(tmp_path, "typescript") as (process, below):
        groups = {os.getpgid(each.pid) for each in below}
        assert os.getpgid(process.pid) not in groups
        process.kill()
        process.wait()
        assert wait_until(lambda: all_gone(below), 30), below


SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def watched() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEPS, start_new_session=True) as process:
        reaper.watch(process.pid, group=True)
        yield process
        reaper.forget(process.pid)
        process.kill()


def reaper_of_this_process() -> psutil.Process:
    [found] = [
        each
        for each in psutil.Process().children()
        if is_alive(each) and "reaper.py" in " ".join(each.cmdline())
    ]
    return found


def test_a_killed_reaper_is_replaced_and_knows_what_runs(
    watched: subprocess.Popen[bytes],
) -> None:
    first = reaper_of_this_process()
    first.kill()
    assert wait_until(lambda: not is_alive(first), 30)
    with subprocess.Popen(SLEEPS) as other:
        reaper.watch(other.pid, group=False)
        assert reaper_of_this_process().pid != first.pid
        reaper.close()
        assert watched.wait(30) == -signal.SIGKILL
        assert other.wait(30) == -signal.SIGKILL


def test_unregistered_processes_are_left_alone(watched: subprocess.Popen[bytes]) -> None:
    with subprocess.Popen(SLEEPS) as other:
        reaper.watch(other.pid, group=False)
        reaper.forget(other.pid)
        reaper.close()
        assert watched.wait(30) == -signal.SIGKILL
        assert other.poll() is None
        other.kill()


def test_the_reaper_ignores_stop_signals(watched: subprocess.Popen[bytes]) -> None:
    found = reaper_of_this_process()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        found.send_signal(number)
    reaper.close()
    assert watched.wait(30) == -signal.SIGKILL
    assert wait_until(lambda: not is_alive(found), 30)
