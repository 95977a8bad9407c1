"""The pool of Monty workers of this process, restricted by Landlock, replaced when they die."""

from __future__ import annotations

import atexit
import contextlib
import os
import resource
import shutil
import signal
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from pydantic_monty import Monty, MontySession, ResourceLimits

from workflows.common import landlock

from . import reaper
from .denials import task_failure

_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store")
_MAX_WORKERS: Final = max(2, os.cpu_count() or 2)
_DATA_BYTES: Final = 1 << 30
_POLL_SECONDS: Final = 0.05
_LOCK: Final = threading.Lock()
_pools: dict[int, Monty] = {}


# One per process, never invalidated: another executable takes a restart.
@cache
def binary() -> str:
    """Return the Monty executable: MONTY_BIN, that of the PyPI package, or one on the PATH.

    :raises FileNotFoundError: when it is not installed.
    """
    executable = (
        os.environ.get("MONTY_BIN")
        or shutil.which("monty", path=sysconfig.get_path("scripts"))
        or shutil.which("monty")
    )
    if executable is None:
        raise FileNotFoundError("the monty executable is not installed")
    return str(Path(executable).resolve())


def _pool() -> Monty:
    """Return the pool of this process; start it at first use."""
    with _LOCK:
        pool = _pools.get(os.getpid())
        if pool is None and _pools:
            # The threads of a pool do not survive a fork; a run would never end.
            raise RuntimeError("Python code ran before this process was forked: fork earlier")
        if pool is None:
            pool = Monty(binary_path=binary(), min_processes=1, max_processes=_MAX_WORKERS)
            _run_restricted(pool.__enter__)
            _pools[os.getpid()] = pool
        return pool


def close_pool() -> None:
    """Stop the workers of this process. The next run starts new ones."""
    with _LOCK:
        pool = _pools.pop(os.getpid(), None)
        if pool is not None:
            pool.__exit__(None, None, None)


atexit.register(close_pool)


def _run_restricted(start: Callable[[], object]) -> None:
    """Call `start` so that a worker process it spawns has no access to files and TCP ports."""
    if not landlock.abi():
        start()
        return
    rules = landlock.LandlockRules(
        execute=(binary(), *_LIBRARIES), read=("/dev/null", "/dev/urandom"), write=("/dev/null",)
    )
    landlock.run_restricted(rules, start)


@contextlib.contextmanager
def session(limits: ResourceLimits, timeout: float) -> Iterator[MontySession]:
    """Open a session on a dedicated worker; wait at most `timeout` seconds for one."""
    waiting_until = time.monotonic() + timeout
    while True:
        opened = _pool().checkout(limits=limits, script_name="code.py")
        try:
            _run_restricted(opened.__enter__)
            break
        except TimeoutError:
            if time.monotonic() >= waiting_until:
                raise task_failure("No sandbox worker became free in time") from None
    pid = opened.worker_pid
    try:
        if pid is not None:
            # An idle worker ends when the pipe to this process closes; a busy one does not read it.
            reaper.watch(pid, group=False)
        _limit(pid)
        yield opened
    finally:
        if pid is not None:
            reaper.forget(pid)
        opened.__exit__(None, None, None)


def _limit(pid: int | None) -> None:
    if pid is None or not hasattr(resource, "prlimit"):
        return
    for kind, limit in (
        (resource.RLIMIT_DATA, _DATA_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, kind, (limit, limit))


class Watchdog:
    """Kills a session's worker at the deadline, or when the caller stops the run.

    The interpreter checks its limits between instructions; one long instruction, or the compiler,
    can exceed them. `reason` is "stopped" or "late".
    """

    def __init__(
        self, worker: MontySession, deadline: float, should_stop: Callable[[], bool]
    ) -> None:
        self._deadline, self._should_stop = deadline, should_stop
        self._finished = threading.Event()
        self._process = _process_handle(worker.worker_pid)
        self._thread = threading.Thread(target=self._watch, name="sandbox-watchdog", daemon=True)
        self.reason: str | None = None

    def _watch(self) -> None:
        while not self._finished.wait(_POLL_SECONDS):
            if self._should_stop():
                self.reason = "stopped"
            elif time.monotonic() > self._deadline:
                self.reason = "late"
            if self.reason is not None:
                with contextlib.suppress(ProcessLookupError):
                    self._kill()
                return

    def _kill(self) -> None:
        kind, number = self._process
        if kind == "pidfd":
            signal.pidfd_send_signal(number, signal.SIGKILL)
        elif kind == "pid":
            os.kill(number, signal.SIGKILL)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finished.set()
        self._thread.join()
        if self._process[0] == "pidfd":
            os.close(self._process[1])


def _process_handle(pid: int | None) -> tuple[str, int]:
    """Return a pidfd, which cannot refer to a later process with an equal id, or else the pid."""
    if pid is None:
        return "none", 0
    if hasattr(os, "pidfd_open"):
        return "pidfd", os.pidfd_open(pid)
    return "pid", pid
