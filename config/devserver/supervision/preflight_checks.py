"""Checks before the start: one instance per home folder, a free port, no leftover processes."""

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from config.devserver.embedded.processes import is_alive, wait_until
from config.devserver.supervision.process_tree import ProcessTree, kill_all


class StartRefused(RuntimeError):
    """The product cannot start; the message has the reason and the remedy."""


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """Hold the lock of `home`; the system releases it even if the process is killed."""
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
    """Raise `StartRefused` if the port is in use."""
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
    """Store the ids of the child processes, so that the next start can end leftovers."""
    rows = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            rows.append([pid, psutil.Process(pid).create_time()])
    # Whole or not at all: we may be killed in the middle of it.
    half = home / "children.json.new"
    half.write_text(json.dumps(rows), encoding="ascii")
    half.replace(home / "children.json")


def end_leftovers(home: Path) -> str:
    """End the processes of a supervisor that was killed; return their names, or "" for none.

    A process that is still there five seconds after SIGTERM is killed. Start times are compared,
    so a pid that now belongs to another process is not touched.
    """
    path = home / "children.json"
    try:
        rows = json.loads(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return ""
    left = [process for process in (_same_process(*row) for row in rows) if process is not None]
    trees = [ProcessTree(process.pid) for process in left]
    for tree in trees:
        tree.look()
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    wait_until(lambda: not any(is_alive(process) for process in left), 5)
    killed = kill_all(process for process in left if is_alive(process))
    killed = ", ".join(filter(None, [killed, *(tree.end(0) for tree in trees)]))
    path.unlink()
    count = f"{len(left)} processes" if len(left) > 1 else "1 process" if left else ""
    return f"{count}; had to kill {killed}" if killed else count


def _same_process(pid: int, created: float) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        return process if abs(process.create_time() - created) < 0.01 else None
    except psutil.NoSuchProcess:
        return None
