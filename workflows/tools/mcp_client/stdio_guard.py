"""Run one stdio server, and kill its process group when the owner exits.

The owner starts this file as a script (`python -I -S stdio_guard.py COMMAND ARGS...`), as the
leader of a new session. The server inherits stdin, stdout and stderr, so messages do not pass
through the guard. The guard kills the group when the server ends, so that no helper process
remains, and when stdin hangs up, because the owner closed it or died.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from types import FrameType

#: Seconds between a hang-up and the kill: a well-behaved server exits at the end of its input.
GRACE_SECONDS = 3.0

#: Seconds between checks that the owner is still the parent: a process that it has forked may keep
#: the other end of stdin open after the death of the owner.
POLL_SECONDS = 1.0

#: poll() always reports the hang-up of a pipe; for a socket this flag requests it.
_HANG_UP = getattr(select, "POLLRDHUP", 0)


_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform.startswith("linux") else None


def main(command: list[str]) -> int:
    """Run `command` until it or its owner ends, then kill the group; 127 if it cannot start."""
    owner, guard = os.getppid(), os.getpid()
    if os.getpgrp() != os.getpid():
        os.setsid()
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    try:
        server = subprocess.Popen(  # noqa: S603 - that is its purpose
            command,
            close_fds=True,
            # The guard has one thread, so nothing can be locked between fork and exec.
            preexec_fn=lambda: _end_with(guard),
        )
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]!r}: {error.strerror}\n")
        return 127

    def forward(number: int, _frame: FrameType | None) -> None:
        server.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, forward)
    _release_stdout()
    try:
        _wait(server, owner, ended)
        if server.returncode:
            # Written to the descriptor: sys.stderr could fail when the reader is gone.
            os.write(2, f"the server ended with status {server.returncode}\n".encode())
    finally:
        os.killpg(0, signal.SIGKILL)
    return 0


def _end_with(guard: int) -> None:
    """Let the kernel kill the server when the guard is killed (Linux); runs before exec."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, *map(ctypes.c_ulong, (signal.SIGKILL, 0, 0, 0)))
        if os.getppid() != guard:
            # The guard was killed before the call above, so the kernel will not send a signal.
            os.kill(os.getpid(), signal.SIGKILL)


def _release_stdout() -> None:
    """Close stdout here, so that the owner sees end of file when the server closes its side."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _wait(server: subprocess.Popen[bytes], owner: int, ended: int) -> None:
    """Return when the server has ended, or the grace period after the owner has ended."""
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(0, _HANG_UP)
    end: float | None = None
    while server.poll() is None:
        events = {descriptor for descriptor, _event in poll.poll(POLL_SECONDS * 1000)}
        if ended in events:
            os.read(ended, 512)
        if 0 in events:
            poll.unregister(0)
        if end is None and (0 in events or os.getppid() != owner):
            end = time.monotonic() + GRACE_SECONDS
        if end is not None and time.monotonic() >= end:
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
