"""Run one stdio server confined, and kill everything that it has started when the owner exits.

The owner starts this file as a script (`python -I -S stdio_guard.py CONFINEMENT COMMAND ARGS...`),
as the leader of a new session. The server inherits stdin, stdout and stderr, so messages do not
pass through the guard. The guard kills every process below it when the server ends, so that no
helper remains, and when stdin hangs up, because the owner closed it or died.

CONFINEMENT is the JSON object that `confinement.settings_of` makes. The variables of the server are
in one variable of the guard, so that none of them (LD_PRELOAD) applies to the guard itself.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

if __name__ == "__main__":
    # A script does not find the packages beside it.
    sys.path.append(str(Path(__file__).resolve().parents[3]))

from workflows.common import landlock, seccomp

#: Seconds between a hang-up and the kill: a well-behaved server exits at the end of its input.
GRACE_SECONDS = 3.0

#: Seconds between checks that the owner is still the parent: a process that it has forked may keep
#: the other end of stdin open after the death of the owner.
POLL_SECONDS = 1.0

#: poll() always reports the hang-up of a pipe; for a socket this flag requests it.
_HANG_UP = getattr(select, "POLLRDHUP", 0)

#: Variable of the guard with the variables of the server, as JSON.
ENVIRONMENT = "HOLDPOINT_TOOL_ENVIRONMENT"

#: Stands for the folder of the run in the arguments of a server; its home where there is no run.
RUN_FOLDER = "$RUN_FOLDER"

_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_MAX_OPEN_FILES = 1024
#: For a server with an account of its own: the limit counts all processes of the account.
_MAX_PROCESSES = 512
_LIBC = ctypes.CDLL(None) if sys.platform.startswith("linux") else None


def main(arguments: list[str]) -> int:
    """Run the command until it or its owner ends, then kill the rest; 127 if it cannot start."""
    confinement: dict[str, Any] = json.loads(arguments[0])
    owner, guard = os.getppid(), os.getpid()
    if os.getpgrp() != os.getpid():
        os.setsid()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    home = tempfile.mkdtemp(prefix="holdpoint-tool-")
    folder = confinement["folder"] or home
    command = [word.replace(RUN_FOLDER, folder) for word in arguments[1:]]
    if confinement["user"]:
        os.chown(home, *confinement["user"])
    try:
        server = subprocess.Popen(  # noqa: S603 - that is its purpose
            command,
            close_fds=True,
            cwd=folder,
            env=_environment(home),
            # The guard has one thread, so nothing can be locked between fork and exec.
            preexec_fn=lambda: _enter(confinement, home, guard),
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it cannot be confined"
        sys.stderr.write(f"cannot start {command[0]!r}: {reason}\n")
        shutil.rmtree(home, ignore_errors=True)
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
        _kill_descendants()
        with suppress(Exception):  # nothing that the server left may keep the guard alive
            shutil.rmtree(home, ignore_errors=True)
        os.killpg(0, signal.SIGKILL)
    return 0


def _environment(home: str) -> dict[str, str]:
    """Return the variables of the server, built from nothing: a home of its own, and its own."""
    own: Mapping[str, str] = json.loads(os.environ.get(ENVIRONMENT, "{}"))
    path = os.environ.get("PATH", os.defpath)
    return {"PATH": path, "LANG": "C.UTF-8", "HOME": home, "TMPDIR": home, **own}


def _enter(confinement: Mapping[str, Any], home: str, guard: int) -> None:
    """Confine this process for good; runs between fork and exec."""
    try:
        _confine(confinement, home, guard)
    except Exception as error:
        os.write(2, f"cannot be confined: {error}\n".encode())
        raise


def _confine(confinement: Mapping[str, Any], home: str, guard: int) -> None:
    user = confinement["user"]
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: _MAX_OPEN_FILES}
    if user:
        limits[resource.RLIMIT_NPROC] = _MAX_PROCESSES
    for kind, limit in limits.items():
        hard = resource.getrlimit(kind)[1]
        low = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (low, low))
    if confinement["confined"]:
        # As the owner's account, which may open folders that the server's account may not.
        landlock.restrict_thread(
            landlock.LandlockRules(
                execute=tuple(confinement["execute"]),
                read=(*confinement["read"], *confinement["write"], os.path.realpath(home)),
                write=(*confinement["write"], os.path.realpath(home)),
                ports=tuple(confinement["ports"]),
            )
        )
    if os.geteuid() == 0:
        # Without capabilities, root may only do with files what their owner may.
        for capability in range(64):
            _prctl(_PR_CAPBSET_DROP, capability)
    if user:
        os.setgroups([])
        os.setresgid(user[1], user[1], user[1])
        os.setresuid(user[0], user[0], user[0])
    _end_with(guard)
    if confinement["confined"]:
        seccomp.restrict_thread(internet=bool(confinement["ports"]))


def _prctl(option: int, value: int) -> None:
    if _LIBC is not None:
        _LIBC.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0)))


def _end_with(guard: int) -> None:
    """Let the kernel kill the server when the guard is killed (Linux); runs before exec."""
    if _LIBC is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            # The guard was killed before the call above, so the kernel will not send a signal.
            os.kill(os.getpid(), signal.SIGKILL)


def _kill_descendants() -> None:
    """Kill every process below the guard, also one that has left its process group (Linux).

    The guard is their subreaper: children of a killed process become its own.
    """
    while children := _children():
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in children:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> list[int]:
    own, children = str(os.getpid()), []
    for name in os.listdir("/proc") if _LIBC is not None else ():  # noqa: PTH208 - names only
        if name.isdigit():
            with suppress(OSError):
                # The command's name in parentheses may contain any character; the fields follow.
                fields = Path(f"/proc/{name}/stat").read_text(errors="replace").rpartition(")")
                if fields[2].split()[1] == own:
                    children.append(int(name))
    return children


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
