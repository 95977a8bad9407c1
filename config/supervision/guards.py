"""What is checked before anything starts, so that two instances never share a port or a home."""

import contextlib
import fcntl
import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from config.embedded.processes import is_alive, wait_until


class StartRefused(RuntimeError):
    """The product cannot start; the message says why and what to do."""


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """Holds the lock of `home`; the system releases it even when we are killed."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "supervisor.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise StartRefused(
                f"Holdpoint already runs on {home} (process {lock.read().strip() or 'unknown'}). "
                "Stop it first, or give this one its own folder and port: "
                "HOLDPOINT_HOME=var2 HOLDPOINT_PORT=8001 make run"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def check_port(host: str, port: int) -> None:
    """Raises `StartRefused` when somebody listens on the port already."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise StartRefused(
                f"Port {port} on {host} cannot be used: {error.strerror}. "
                f"Choose another one: HOLDPOINT_PORT={min(port + 1, 65535)} make run"
            ) from None


def remember(home: Path, pids: list[int]) -> None:
    """Notes our children, so that a later start can end them if we are killed."""
    rows = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            rows.append([pid, psutil.Process(pid).create_time()])
    (home / "children.json").write_text(json.dumps(rows), encoding="ascii")


def end_leftovers(home: Path) -> int:
    """Ends children of a supervisor that was killed; how many there were.

    The time of their start is compared, so that a pid given to somebody else is left alone.
    """
    path = home / "children.json"
    try:
        rows = json.loads(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
    left = [process for process in (_same_process(*row) for row in rows) if process is not None]
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    wait_until(lambda: not any(is_alive(process) for process in left), 5)
    for process in left:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    path.unlink()
    return len(left)


def _same_process(pid: int, created: float) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        return process if abs(process.create_time() - created) < 0.01 else None
    except psutil.NoSuchProcess:
        return None
