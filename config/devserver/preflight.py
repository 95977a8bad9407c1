"""Checks before the start: one instance per home folder, and a free port."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
