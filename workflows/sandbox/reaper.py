"""Kill the sandboxed programs of a worker that was killed itself.

A worker cannot clean up after `kill -9`. Therefore it starts a small process, the reaper, and sends
it the ids of running programs over a pipe. When the pipe closes, for whatever reason, the reaper
kills the programs that are still listed, and exits.

PR_SET_PDEATHSIG is not enough: it is bound to the thread that starts the program, and these threads
are short-lived (Landlock restricts a thread permanently). As a script, this file needs only the
standard library: `python -I -S reaper.py`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

_LOCK = threading.Lock()
_reapers: dict[int, _Reaper] = {}


class _Reaper:
    """The worker's end of the pipe, with the list of watched processes."""

    def __init__(self) -> None:
        self._watched: dict[int, str] = {}
        self._process = _start()

    def watch(self, pid: int, kind: str) -> None:
        self._watched[pid] = kind
        self._send(f"{kind}{pid}\n")

    def forget(self, pid: int) -> None:
        if self._watched.pop(pid, None) is not None:
            self._send(f"-{pid}\n")

    def _send(self, line: str) -> None:
        try:
            self._write(line)
        except OSError:
            # The reaper was killed: a new one receives the whole list.
            self.close()
            self._process = _start()
            for pid, kind in self._watched.items():
                self._write(f"{kind}{pid}\n")

    def _write(self, line: str) -> None:
        if self._process.stdin is None:
            raise RuntimeError("the reaper was started without its pipe")
        # Writes of a short line to a pipe are atomic.
        os.write(self._process.stdin.fileno(), line.encode())

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)


def watch(pid: int, *, group: bool) -> None:
    """Kill process `pid` when this process dies; with `group`, its whole process group."""
    with _LOCK:
        own = os.getpid()
        if own not in _reapers:
            _reapers.clear()  # the pipe of the parent process
            _reapers[own] = _Reaper()
        _reapers[own].watch(pid, "g" if group else "p")


def forget(pid: int) -> None:
    """Stop watching `pid`: call this before waiting for it, because its id can be reused."""
    with _LOCK:
        reaper = _reapers.get(os.getpid())
        if reaper is not None:
            reaper.forget(pid)


def close() -> None:
    """Stop this process's reaper, which kills every program that is still watched."""
    with _LOCK:
        reaper = _reapers.pop(os.getpid(), None)
        if reaper is not None:
            reaper.close()


atexit.register(close)


def _start() -> subprocess.Popen[bytes]:
    """Start a reaper and wait until it ignores all signals except SIGKILL."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).resolve())],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
        # A signal to the worker's process group must not reach the reaper.
        start_new_session=True,
    )
    if process.stdout is not None:
        process.stdout.read(1)
    return process


# --- the other end of the pipe --------------------------------------------------------------------


class _Program:
    """A watched process. A pidfd cannot refer to another process later, unlike an id."""

    def __init__(self, kind: str, pid: int) -> None:
        self.pid, self.is_group = pid, kind == "g"
        self.handle = -1
        with contextlib.suppress(OSError, AttributeError):
            self.handle = os.pidfd_open(pid)

    def close(self) -> None:
        if self.handle >= 0:
            os.close(self.handle)

    def kill(self) -> None:
        # A pidfd becomes readable when the process ends.
        if self.handle >= 0 and select.select([self.handle], [], [], 0)[0]:
            return
        with contextlib.suppress(OSError):
            if self.is_group:
                os.killpg(self.pid, signal.SIGKILL)
            else:
                os.kill(self.pid, signal.SIGKILL)


def main() -> None:
    """Read the pipe until it closes, then kill every program that is still listed."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.write(1, b"!")
    programs: dict[int, _Program] = {}
    with open(0, "rb", buffering=0, closefd=False) as pipe:
        rest = b""
        while data := pipe.read(65_536):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                kind, pid = chr(line[0]), int(line[1:])
                known = programs.pop(pid, None)
                if known is not None:
                    known.close()
                if kind != "-":
                    programs[pid] = _Program(kind, pid)
    for each in programs.values():
        each.kill()


if __name__ == "__main__":
    main()
