"""Track all descendants of a child process, to end them after it.

When a process ends, init adopts its children, and they can no longer be found from the product. So
descendants are recorded while their parents are alive.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator

import psutil

from config.devserver.embedded.processes import is_alive, wait_until

GONE_SECONDS = 2.0  # time for killed processes to disappear


class ProcessTree:
    """The processes below one child, which leads a session."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._known: dict[int, psutil.Process] = {}
        self._seen: set[int] = set()

    def look(self) -> None:
        """Record the present descendants; those in other sessions are found only this way.

        Only processes that are new since the last call are read: no process becomes a descendant
        later, and a machine has hundreds.
        """
        pids = set(psutil.pids())
        new = dict(_with_parents(pids - self._seen))
        self._seen = pids
        family = {self._leader, *self._known}
        while found := [each for each, parent in new.items() if parent in family]:
            for process in found:
                del new[process]
                self._known[process.pid] = process
                family.add(process.pid)
        self._known = {pid: each for pid, each in self._known.items() if is_alive(each)}

    def members(self) -> list[psutil.Process]:
        """Return the live recorded processes and the leader's session, without the leader."""
        found = dict(self._known)
        for process in psutil.process_iter():
            if process.pid != self._leader and _session(process.pid) == self._leader:
                found.setdefault(process.pid, process)
        return [process for process in found.values() if is_alive(process)]

    def end(self, patience: float) -> str:
        """Wait `patience` seconds for all to end, kill the others and return their names, or ""."""
        wait_until(lambda: not self.members(), patience)
        return kill_all(self.members())


def kill_all(processes: Iterable[psutil.Process]) -> str:
    """Kill these processes and return their names ("2 python, deno"), or ""."""
    names: Counter[str] = Counter()
    killed = []
    for process in processes:
        # psutil compares start times, so a reused pid is not killed.
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            name = process.name()
            process.kill()
            names[name] += 1
            killed.append(process)
    wait_until(lambda: not any(is_alive(process) for process in killed), GONE_SECONDS)
    return ", ".join(name if count == 1 else f"{count} {name}" for name, count in names.items())


def _with_parents(pids: Iterable[int]) -> Iterator[tuple[psutil.Process, int]]:
    """Yield these processes with the ids of their parents."""
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process = psutil.Process(pid)
            yield process, process.ppid()


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0
