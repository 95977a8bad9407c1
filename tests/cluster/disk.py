"""Disks that take no more."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from typing import Protocol

from tests.cluster.servers import Postgres


class Disk(Protocol):
    def fill(self) -> None: ...

    def is_noticed(self) -> bool:
        """Whether PostgreSQL could not write since the disk is full."""

    def free(self) -> None: ...


class FileSystem:
    """The file system of a server's data; a file takes what is free."""

    def __init__(self, server: Postgres) -> None:
        self._ballast, self._log, self._seen = server.data / "ballast", server.log, 0

    def fill(self) -> None:
        self._seen = self._log.stat().st_size
        with self._ballast.open("wb") as file:
            taken = 0
            # Others write too: take smaller pieces when a large one no longer fits.
            for piece in (1 << 24, 1 << 20, 1 << 16, 1 << 12):
                with suppress(OSError):
                    while True:
                        os.posix_fallocate(file.fileno(), taken, piece)
                        taken += piece

    def is_noticed(self) -> bool:
        return "No space left on device" in self._log.read_text()[self._seen :]

    def free(self) -> None:
        self._ballast.unlink()


class FileLimit:
    """A limit on the size of files for a server's processes, which needs no right: the kernel
    refuses each write beyond the first bytes of a file, as a full disk does.
    """

    def __init__(self, server: Postgres) -> None:
        self._server = server

    def fill(self) -> None:
        self._limit("8192:")

    def is_noticed(self) -> bool:
        # It ends, and cannot write that to its log.
        return not self._server.answers()

    def free(self) -> None:
        self._limit("unlimited:")

    def _limit(self, most: str) -> None:
        """Set the soft limit, with the account of the processes; some may have ended."""
        for pid in self._server.pids():
            command = ["prlimit", f"--fsize={most}", "--pid", str(pid)]
            words = self._server.host.command(*command, account=self._server.account)
            subprocess.run(words, capture_output=True, check=False)
