"""The Monty workers of this process: small, warm, behind Landlock, replaced when they die."""

from __future__ import annotations

import atexit
import contextlib
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from pydantic_monty import Monty, MontySession, ResourceLimits
from pydantic_monty._binary import find_monty_binary

from . import landlock, reaper
from .denials import failed

_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store")
_MAX_WORKERS: Final = max(2, os.cpu_count() or 2)
_DATA_BYTES: Final = 1 << 30
_POLL_SECONDS: Final = 0.05
_LOCK: Final = threading.Lock()
_pools: dict[int, Monty] = {}


@cache
def binary() -> str:
    """The Monty executable that its PyPI package brings. FileNotFoundError when not there."""
    return str(Path(find_monty_binary()).resolve())


def _pool() -> Monty:
    """The pool of this process, started when it is first needed."""
    with _LOCK:
        pool = _pools.get(os.getpid())
        if pool is None and _pools:
            # The threads that serve a pool do not survive a fork; a run here would never end.
            raise RuntimeError("Python code ran before this process was forked: fork earlier")
        if pool is None:
            pool = Monty(binary_path=binary(), min_processes=1, max_processes=_MAX_WORKERS)
            _behind_fence(pool.__enter__)
            _pools[os.getpid()] = pool
        return pool


def close_pool() -> None:
    """End the workers of this process. The next run starts new ones."""
    with _LOCK:
        pool = _pools.pop(os.getpid(), None)
        if pool is not None:
            pool.__exit__(None, None, None)


atexit.register(close_pool)


def _behind_fence(start: Callable[[], object]) -> None:
    """Call `start` so that a worker process it spawns can reach no file and no TCP port."""
    if not landlock.abi():
        start()
        return
    fence = landlock.Fence(
        execute=(binary(), *_LIBRARIES), read=("/dev/null", "/dev/urandom"), write=("/dev/null",)
    )
    landlock.confined(fence, start)


@contextlib.contextmanager
def session(limits: ResourceLimits, patience: float) -> Iterator[MontySession]:
    """A fresh session on a worker of its own; waits at most `patience` seconds for one."""
    waiting_until = time.monotonic() + patience
    while True:
        opened = _pool().checkout(limits=limits, script_name="code.py")
        try:
            _behind_fence(opened.__enter__)
            break
        except TimeoutError:
            if time.monotonic() >= waiting_until:
                raise failed("No sandbox worker became free in time") from None
    pid = opened.worker_pid
    try:
        if pid is not None:
            # An idle worker ends with the pipe to this process, a busy one does not look at it.
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
    """Kills a session's worker when the time is over or the caller wants to stop.

    The interpreter checks its own limits between instructions; one long instruction, or the
    compiler, would outlive them. `reason` says why it struck.
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
    """A handle that can never name a later process with the same id, where the system has one."""
    if pid is None:
        return "none", 0
    if hasattr(os, "pidfd_open"):
        return "pidfd", os.pidfd_open(pid)
    return "pid", pid
