"""How many streams and sockets somebody keeps open in this process."""

from __future__ import annotations

import threading
from collections import Counter

_open: Counter[str] = Counter()
_lock = threading.Lock()


class ConnectionSlot:
    """A place that is taken until `leave` is called for the first time."""

    def __init__(self, who: str) -> None:
        self._who: str | None = who

    def release(self) -> None:
        with _lock:
            who, self._who = self._who, None
            if who is not None:
                _open[who] -= 1
                if not _open[who]:
                    del _open[who]


def acquire(who: str, *, most: int) -> ConnectionSlot | None:
    """A place for one more connection of `who`; None when `most` are open (0 is no limit)."""
    with _lock:
        if most and _open[who] >= most:
            return None
        _open[who] += 1
    return ConnectionSlot(who)


def open_connections() -> int:
    """Connections that are open, of everybody."""
    with _lock:
        return _open.total()
