"""Disks that take no more."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import psutil


class Disk(Protocol):
    def fill(self) -> None: ...

    def free(self) -> None: ...


class FileSystem:
    """A file system of its own, at a folder; a file takes what is free."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._ballast = folder, folder / "ballast"

    def fill(self) -> None:
        with self._ballast.open("wb") as file:
            taken = 0
            # Others write too: take smaller pieces when a large one no longer fits.
            for piece in (1 << 24, 1 << 20, 1 << 16, 1 << 12):
                with suppress(OSError):
                    while True:
                        os.posix_fallocate(file.fileno(), taken, piece)
                        taken += piece

    def free(self) -> None:
        self._ballast.unlink()


class FileLimit:
    """A limit on the size of files for some processes, which needs no right: the kernel refuses
    each write beyond the first bytes of a file, as a full disk does.
    """

    BYTES = 8192

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self._pids = pids

    def fill(self) -> None:
        self._limit(self.BYTES)

    def free(self) -> None:
        self._limit(resource.RLIM_INFINITY)

    def _limit(self, most: int) -> None:
        for pid in self._pids():
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                _, hard = process.rlimit(psutil.RLIMIT_FSIZE)
                process.rlimit(psutil.RLIMIT_FSIZE, (most if hard < 0 else hard, hard))
