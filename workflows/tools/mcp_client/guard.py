"""Runs one stdio server and takes its whole process group along when the owner goes away.

Started as a script (`python -I -S guard.py COMMAND ARGS...`) as the leader of a new session.  The
server inherits stdin, stdout and stderr, so the guard is not in the way of a message.  It ends the
group when the server ends, so that no helper process stays, and when stdin hangs up, which happens
whenever the owner closes it or dies, however it dies.
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

#: Seconds between a hang-up and the kill: a well-behaved server leaves by itself on end of input.
GRACE_SECONDS = 3.0

#: How often to look whether the owner is still the parent: a process that it has forked may hold
#: the other end of stdin open after its death.
LOOK_SECONDS = 1.0

#: A hang-up of a pipe is always reported; that of a socket has to be asked for.
_HANG_UP = getattr(select, "POLLRDHUP", 0)


_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform.startswith("linux") else None


def main(command: list[str]) -> int:
    """Run `command` until it or its owner ends, then kill the group; 127 if it cannot start."""
    owner = os.getppid()
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
            preexec_fn=_end_with_guard,
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
            # Straight to the descriptor: nobody may be there any more to read it.
            os.write(2, f"the server ended with status {server.returncode}\n".encode())
    finally:
        os.killpg(0, signal.SIGKILL)
    return 0


def _end_with_guard() -> None:
    """In the server, before it begins: have it killed if somebody kills the guard (Linux)."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, *map(ctypes.c_ulong, (signal.SIGKILL, 0, 0, 0)))


def _release_stdout() -> None:
    """The owner must see end of file as soon as the server alone has closed its side."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _wait(server: subprocess.Popen[bytes], owner: int, ended: int) -> None:
    """Return when the server has ended, or at the end of the grace after the owner has gone."""
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(0, _HANG_UP)
    end: float | None = None
    while server.poll() is None:
        events = {descriptor for descriptor, _event in poll.poll(LOOK_SECONDS * 1000)}
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
