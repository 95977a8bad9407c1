"""A child's own children, and theirs: who they are, and whether they are all gone.

A process that ends leaves its children to init, and nothing connects them to the product any more.
So they are noted while their parents live.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable

import psutil

from config.devserver.embedded.processes import is_alive, wait_until

GONE_SECONDS = 2.0  # in which the system takes away what was killed


class Family:
    """The processes below one child, which leads a session."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._known: dict[int, psutil.Process] = {}

    def look(self) -> None:
        """Note who is there now. Processes in sessions of their own are found only this way."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._leader).children(recursive=True):
                self._known.setdefault(process.pid, process)
        self._known = {pid: each for pid, each in self._known.items() if is_alive(each)}

    def members(self) -> list[psutil.Process]:
        """Everyone known who lives, and the rest of the leader's session; not the leader."""
        found = dict(self._known)
        for process in psutil.process_iter():
            if process.pid != self._leader and _session(process.pid) == self._leader:
                found.setdefault(process.pid, process)
        return [process for process in found.values() if is_alive(process)]

    def end(self, patience: float) -> str:
        """Wait `patience` seconds for all to end and kill the others; who they were, or ""."""
        wait_until(lambda: not self.members(), patience)
        return kill_all(self.members())


def kill_all(processes: Iterable[psutil.Process]) -> str:
    """Kill these processes; names them for the console ("2 python, deno"), "" when none lived."""
    names: Counter[str] = Counter()
    killed = []
    for process in processes:
        # psutil compares the time of the start: a pid that was given to another process is safe.
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            name = process.name()
            process.kill()
            names[name] += 1
            killed.append(process)
    wait_until(lambda: not any(is_alive(process) for process in killed), GONE_SECONDS)
    return ", ".join(name if count == 1 else f"{count} {name}" for name, count in names.items())


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0
