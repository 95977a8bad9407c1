"""Small helpers round processes that outlive the one that started them."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

POLL_SECONDS = 0.05


class Server(subprocess.Popen[bytes]):
    """A child that may outlive us on purpose: when we end, that is nothing to warn of."""

    def __del__(self, *_: Any, **__: Any) -> None:
        """Say nothing, where Popen warns that the child still runs."""


_children: list[Server] = []  # held, so that their ends are collected


def spawn_server(command: list[str], log: Path, **options: Any) -> Server:
    """Starts a server that outlives us, deaf to the terminal's Ctrl-C, writing to `log`."""
    collect_ended()
    with log.open("ab") as output:
        child = Server(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **options,
        )
    _children.append(child)
    return child


def collect_ended() -> None:
    """Forget children that have ended; the kernel can then, too."""
    _children[:] = [child for child in _children if child.poll() is None]


def find_process(pid: int, name: str, folder: Path) -> psutil.Process | None:
    """The live process `pid` if it is called `name` and works in `folder`.

    A pid in a file may have been given to somebody else since; name and folder tell.
    """
    collect_ended()
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        if process.name() == name and Path(process.cwd()) == folder.resolve():
            return process
    except (psutil.NoSuchProcess, psutil.AccessDenied, FileNotFoundError):
        return None
    return None


def processes_in(folder: Path, name: str) -> list[psutil.Process]:
    """All live processes called `name` that work in `folder`."""
    mine = [process for process in psutil.process_iter(["name"]) if process.info["name"] == name]
    return [process for process in mine if find_process(process.pid, name, folder) is not None]


def read_pid(path: Path) -> int | None:
    """The number in the first line of a pid file, or None when it is absent or damaged.

    A PostgreSQL that makes a new cluster writes its own with a minus sign in front.
    """
    try:
        return abs(int(path.read_text(encoding="ascii", errors="replace").splitlines()[0]))
    except (OSError, ValueError, IndexError):
        return None


def wait_until(condition: Callable[[], bool], timeout: float) -> bool:
    """Asks `condition` again and again for `timeout` seconds; whether it came true."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def stop_process(process: psutil.Process, first: signal.Signals, timeout: float) -> None:
    """Sends `first`, and SIGKILL to what still lives `timeout` seconds later."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(first)
        if not wait_until(lambda: not is_alive(process), timeout):
            process.kill()
            wait_until(lambda: not is_alive(process), 5)
    collect_ended()


def is_alive(process: psutil.Process) -> bool:
    """Running and not a zombie."""
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def tail(path: Path, lines: int = 12) -> str:
    """The last lines of a log file, for an error message."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return f"(no log at {path})"
