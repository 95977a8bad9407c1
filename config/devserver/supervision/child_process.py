"""A process that is kept alive until it is told to stop."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import IO

from config.devserver.supervision.console import Console
from config.devserver.supervision.process_tree import Family
from config.paths import BASE_DIR

FIRST_PAUSE = 0.5  # seconds before the first restart; doubled each time
LONGEST_PAUSE = 15.0
LOOK_SECONDS = 5.0  # between two looks at the processes below a child
PARTING_SECONDS = 3.0  # in which these end by themselves after the child
STEADY_SECONDS = 30.0  # alive for this long: the next end counts as the first again


class Child:
    """One command, its log lines, and its restarts.

    It leads a session of its own: Ctrl-C at the terminal reaches the supervisor alone, which then
    stops everything in order.
    """

    def __init__(
        self, name: str, command: list[str], env: Mapping[str, str], console: Console
    ) -> None:
        self.name = name
        self.restarts = 0
        self._command = command
        self._env = dict(env)
        self._console = console
        self._process: subprocess.Popen[str] | None = None
        self._started = 0.0
        self._pause = FIRST_PAUSE
        self._next_start: float | None = None
        self._family: Family | None = None
        self._looked = 0.0

    def family(self) -> list[int]:
        """Ids of the process and of all below it, as far as they are known."""
        if self._process is None or self._family is None:
            return []
        return [self._process.pid, *(each.pid for each in self._family.members())]

    def _look(self) -> None:
        """Note the processes below this one, now and then."""
        if self._family is not None and time.monotonic() - self._looked > LOOK_SECONDS:
            self._looked = time.monotonic()
            self._family.look()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            cwd=BASE_DIR,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._started = self._looked = time.monotonic()
        self._next_start = None
        self._family = Family(self._process.pid)
        assert self._process.stdout is not None  # noqa: S101 - for the type checker: PIPE was asked for
        threading.Thread(target=self._copy, args=[self._process.stdout], daemon=True).start()

    def keep_alive(self) -> None:
        """Called every moment: notices an end, waits a pause, starts again."""
        if self._next_start is not None:
            if time.monotonic() >= self._next_start:
                self.restarts += 1
                self.start()
            return
        code = None if self._process is None else self._process.poll()
        if code is None:
            self._look()
            return
        # Else the next one would work beside what this one left.
        left = self._family.end(0) if self._family is not None else ""
        if left:
            self._console.line(self.name, f"killed what it had left: {left}")
        if time.monotonic() - self._started > STEADY_SECONDS:
            self._pause = FIRST_PAUSE
        self._console.line(self.name, f"ended with {code}; starting again in {self._pause:g} s")
        self._next_start = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def ask_to_stop(self) -> None:
        """SIGTERM to the process alone, so that it can end its own children in order."""
        self._next_start = None
        if self._family is not None:
            self._family.look()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait(self, deadline: float) -> None:
        """Until it and its family are gone; at `deadline` (monotonic seconds) they are killed."""
        if self._process is None or self._family is None:
            return
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._console.line(self.name, "did not stop in time and was killed")
            self._family.look()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        # What is below it has just seen it go, and needs a moment to do the same.
        killed = self._family.end(PARTING_SECONDS)
        if killed:
            self._console.line(self.name, f"killed what it had left: {killed}")

    def _copy(self, output: IO[str]) -> None:
        with output:
            for line in output:
                self._console.line(self.name, line.rstrip("\n"))
