"""The pool of this process, made when it is first asked for."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from workflows.common import background_loop

if TYPE_CHECKING:
    from .pool import McpPool

_pools: dict[int, McpPool] = {}
_lock = threading.Lock()


def pool() -> McpPool:
    """This process's pool; a forked child gets one of its own."""
    with _lock:
        found = _pools.get(os.getpid())
        if found is None:
            # The SDK takes a fifth of the start of a process, and most commands call no server.
            from .pool import McpPool

            found = _pools[os.getpid()] = McpPool()
            background_loop.register_closer(_close_pool)
        return found


def close_pool(timeout: float = 30.0) -> None:
    """Close this process's pool and end its servers; the next `pool()` is a fresh one.

    Waits at most `timeout` seconds, then raises TimeoutError.  Not to be called on the background
    loop, which closes the pool by itself when it stops.
    """
    background_loop.run(_close_pool(), timeout)


async def _close_pool() -> None:
    with _lock:
        found = _pools.pop(os.getpid(), None)
    if found is not None:
        await found.close()
