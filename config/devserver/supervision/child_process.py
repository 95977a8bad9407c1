"""A supervised child process: started, restarted after a crash, and stopped."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Mapping
from typing import IO

from config.devserver.supervision.console import Console
from config.devserver.supervision.process_tree import ProcessTree
from config.paths import BASE_DIR
from workflows.common.restart_backoff import Backoff

LOOK_SECONDS = 10.0  # interval for recording the descendants of a child
PARTING_SECONDS = 3.0  # time for descendants to end after the child
STOP_SECONDS = 10.0  # time for all children to end after SIGTERM, before they are killed


class Child:
    """A command with its log lines and restarts.

    It runs in a session of its own: Ctrl-C in the terminal reaches only the supervisor, which then
    stops all processes in order.

    With the name of a `companion`, a process that the command starts, the number of a file
    descriptor is added to the command; what the companion writes to it are its log lines.
    """

    def __init__(
        self,
        name: str,
        command: list[str],
        env: Mapping[str, str],
        console: Console,
        companion: str = "",
    ) -> None:
        self.name = name
        self._companion = companion
        self.restarts = 0
        self._command = command
        self._env = dict(env)
        self._console = console
        self._process: subprocess.Popen[str] | None = None
        self._started = 0.0
        self._backoff = Backoff()
        self._next_start: float | None = None
        self._tree: ProcessTree | None = None
        self._looked = 0.0

    def pids(self) -> list[int]:
        """Return the ids of the process and its recorded descendants."""
        if self._process is None or self._tree is None:
            return []
        return [self._process.pid, *(each.pid for each in self._tree.members())]

    def _look(self) -> None:
        """Record the descendants at most every LOOK_SECONDS."""
        if self._tree is not None and time.monotonic() - self._looked > LOOK_SECONDS:
            self._looked = time.monotonic()
            self._tree.look()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        if not self._companion:
            self._start(self._command)
            return
        read_end, write_end = os.pipe()
        self._start([*self._command, str(write_end)], [write_end])
        os.close(write_end)
        self._copy_in_a_thread(self._companion, os.fdopen(read_end, errors="replace"))

    def _start(self, command: list[str], descriptors: Collection[int] = ()) -> None:
        self._process = subprocess.Popen(
            command,
            pass_fds=descriptors,
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
        self._tree = ProcessTree(self._process.pid)
        assert self._process.stdout is not None  # noqa: S101 - for the type checker: stdout is a pipe
        self._copy_in_a_thread(self.name, self._process.stdout)

    def keep_alive(self) -> None:
        """Restart the process after a pause if it has ended; called repeatedly."""
        if self._next_start is not None:
            if time.monotonic() >= self._next_start:
                self.restarts += 1
                self.start()
            return
        code = None if self._process is None else self._process.poll()
        if code is None:
            self._look()
            return
        # Remaining descendants would run beside the new process.
        left = self._tree.end(0) if self._tree is not None else ""
        if left:
            self._console.line(self.name, f"killed what it had left: {left}")
        pause = self._backoff.next_pause(time.monotonic() - self._started)
        self._console.line(self.name, f"ended with {code}; starting again in {pause:g} s")
        self._next_start = time.monotonic() + pause

    def ask_to_stop(self) -> None:
        """Send SIGTERM only to the process, so that it can end its own children in order."""
        self._next_start = None
        if self._tree is not None:
            self._tree.look()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait(self, deadline: float) -> None:
        """Wait for the process and its descendants; kill them at `deadline` (monotonic seconds)."""
        if self._process is None or self._tree is None:
            return
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._console.line(self.name, "did not stop in time and was killed")
            self._tree.look()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        # The descendants need a moment to notice its end.
        killed = self._tree.end(PARTING_SECONDS)
        if killed:
            self._console.line(self.name, f"killed what it had left: {killed}")

    def _copy_in_a_thread(self, name: str, output: IO[str]) -> None:
        threading.Thread(target=self._copy, args=[name, output], daemon=True).start()

    def _copy(self, name: str, output: IO[str]) -> None:
        with output:
            for line in output:
                self._console.line(name, line.rstrip("\n"))
