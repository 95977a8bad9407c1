"""A forked process is started again after a pause that grows."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.devserver.embedded.processes import wait_until
from workflows.common import forked_process, restart_backoff
from workflows.common.forked_process import ForkedProcess

PAUSES = [0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0]


class Clock:
    """Stands in for the module `time`."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(forked_process, "time", clock)
    return clock


@pytest.fixture
def starts(tmp_path: Path) -> Path:
    """Each process that starts adds a byte."""
    path = tmp_path / "starts"
    path.write_text("")
    return path


@pytest.fixture
def process(starts: Path) -> Iterator[ForkedProcess]:
    """A process that ends at once."""

    def run() -> None:
        with starts.open("a") as file:
            file.write("x")
        os._exit(3)

    with (starts.parent / "output").open("w") as output:
        yield ForkedProcess("ends", run, output.fileno())


def started(process: ForkedProcess, starts: Path) -> int:
    """How often the process has started, once the last one has ended."""
    process.keep_alive()
    assert wait_until(lambda: not process.is_alive(), 20)
    return len(starts.read_text())


def test_the_pause_doubles_up_to_a_limit(
    process: ForkedProcess, starts: Path, clock: Clock
) -> None:
    assert started(process, starts) == 1
    for number, pause in enumerate(PAUSES, 1):
        assert started(process, starts) == number  # its end is noticed
        clock.now += pause - 0.01
        assert started(process, starts) == number
        clock.now += 0.02
        assert started(process, starts) == number + 1


def test_the_pause_is_short_again_after_a_steady_run(
    process: ForkedProcess, starts: Path, clock: Clock
) -> None:
    for _ in range(4):
        started(process, starts)
        clock.now += 20
    before = started(process, starts)
    clock.now += restart_backoff.STEADY_SECONDS + 1
    assert started(process, starts) == before
    clock.now += restart_backoff.FIRST_PAUSE + 0.01
    assert started(process, starts) == before + 1
