"""Limit the streams and sockets that a user keeps open in this process."""

from __future__ import annotations

import threading
from collections import Counter

open_connections: Counter[str] = Counter()
_lock = threading.Lock()


class ConnectionSlot:
    """One open connection; `release` frees it, and has no effect a second time."""

    def __init__(self, owner: str) -> None:
        self._owner: str | None = owner

    def release(self) -> None:
        with _lock:
            owner, self._owner = self._owner, None
            if owner is not None:
                open_connections[owner] -= 1
                if not open_connections[owner]:
                    del open_connections[owner]


def acquire(owner: str, *, most: int) -> ConnectionSlot | None:
    """Return a slot for a connection; None if the owner has `most` open (0 means no limit)."""
    with _lock:
        if most and open_connections[owner] >= most:
            return None
        open_connections[owner] += 1
    return ConnectionSlot(owner)
