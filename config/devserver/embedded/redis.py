"""The embedded Redis: start, repair, stop.

Nothing is written to disk: Redis carries only jobs and notifications, which can be recreated from
PostgreSQL.  The settings, with the password, are in a file that only this account reads.
"""

import os
import signal
import socket
from pathlib import Path

import psutil

from config.devserver.embedded.layout import REDIS_USER, EmbeddedError, Layout
from config.devserver.embedded.processes import (
    find_process,
    read_pid,
    spawn_server,
    stop_process,
    tail,
    wait_until,
)

START_SECONDS = 15.0
STOP_SECONDS = 5.0


class Redis:
    """One Redis server on a unix socket."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.log = layout.logs / "redis.log"
        self.pidfile = layout.redis_data / "redis.pid"

    def start(self) -> None:
        """Starts the server, or takes over the one of an earlier run."""
        if self.process() is not None and self.answers():
            return
        self.stop()
        for folder in (self.layout.redis_data, self.layout.logs):
            folder.mkdir(parents=True, exist_ok=True)
        self.layout.sockets.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._launch()

    def stop(self) -> None:
        process = self.process()
        if process is not None:
            stop_process(process, signal.SIGTERM, STOP_SECONDS)
        self.pidfile.unlink(missing_ok=True)

    def process(self) -> psutil.Process | None:
        pid = read_pid(self.pidfile)
        return None if pid is None else find_process(pid, "redis-server", self.layout.redis_data)

    def answers(self) -> bool:
        """Whether the server takes the password; without a client, which takes 8 MiB.

        A server of an earlier release has none, and is replaced.
        """
        password = self.layout.password(REDIS_USER)
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(2)
            try:
                client.connect(str(self.layout.redis_socket))
                client.sendall(f"AUTH {password}\r\n".encode())
                return client.recv(16).startswith(b"+OK")
            except OSError:
                return False

    def _launch(self) -> None:
        command = [str(self.layout.redis_server), str(self._write_settings())]
        child = spawn_server(command, self.log, cwd=self.layout.redis_data)
        self.pidfile.write_text(f"{child.pid}\n", encoding="ascii")
        if not wait_until(lambda: child.poll() is not None or self.answers(), START_SECONDS):
            child.kill()
        if child.poll() is not None:
            raise EmbeddedError(f"Redis did not start. Its log ends with:\n{tail(self.log)}")

    def _write_settings(self) -> Path:
        settings = {
            "requirepass": self.layout.password(REDIS_USER),
            "port": "0",
            "unixsocket": str(self.layout.redis_socket),
            "unixsocketperm": "700",
            "dir": str(self.layout.redis_data),
            "save": "",
            "appendonly": "no",
            "daemonize": "no",
            "hz": "2",  # rounds of housekeeping per second; ten, the default, cost idle CPU time
        }
        path = self.layout.redis_data / "redis.conf"
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            for name, value in settings.items():
                quoted = value.replace("\\", "\\\\").replace('"', '\\"')
                file.write(f'{name} "{quoted}"\n')
        return path
