"""A function that runs in a process of its own, forked from this one.

Both processes share the memory of what was loaded before the fork. Nothing of it may be in use
then: fork in the only thread, without a connection to the database.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

from .parent_death import end_with
from .restart_backoff import Backoff

logger = logging.getLogger(__name__)


class ForkedProcess:
    """Runs `run` in a process that writes its output to the file descriptor `output`.

    The process ends with this one, for any reason. `ps` and `top` list it by `name` on Linux.
    """

    def __init__(self, name: str, run: Callable[[], object], output: int) -> None:
        self._name = name
        self._run = run
        self._output = output
        self._process: BaseProcess | None = None
        self._started = 0.0
        self._backoff = Backoff()
        self._next_start: float | None = None

    def keep_alive(self) -> None:
        """Fork if the process has not started; after a pause if it has ended; called repeatedly."""
        if self.is_alive():
            return
        now = time.monotonic()
        if self._process is not None and self._next_start is None:
            pause = self._backoff.next_pause(now - self._started)
            logger.warning(
                "%s ended with %s; starting again in %g s",
                self._name,
                self._process.exitcode,
                pause,
            )
            self._next_start = now + pause
        if self._next_start is not None and now < self._next_start:
            return
        self._process = multiprocessing.get_context("fork").Process(target=self._work)
        self._process.start()
        self._started, self._next_start = now, None

    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    def ask_to_stop(self) -> None:
        """Send SIGTERM."""
        if self._process is not None:
            self._process.terminate()

    def _work(self) -> None:
        # The handlers of the parent process would act on its children.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        parent = multiprocessing.parent_process()
        if parent is not None and parent.pid is not None:
            end_with(parent.pid)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(self._output, stream.fileno())
        with suppress(OSError):
            Path("/proc/self/comm").write_text(self._name, encoding="ascii")
        self._run()
