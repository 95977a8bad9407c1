"""The pool of this process, created at first use."""

from __future__ import annotations

import os
import threading

from workflows.common import background_loop

from .session_pool import McpPool

_pools: dict[int, McpPool] = {}
_lock = threading.Lock()


def pool() -> McpPool:
    """Return this process's pool; a forked child creates its own."""
    with _lock:
        current = _pools.get(os.getpid())
        if current is None:
            current = _pools[os.getpid()] = McpPool()
            background_loop.register_closer(_close_pool)
        return current


def end_run(run: str) -> None:
    """End the processes of stdio servers that serve `run` in this process, if there are any."""
    with _lock:
        current = _pools.get(os.getpid())
    if current is not None:
        background_loop.run(current.end_run(run), 30.0)


def close_pool(timeout: float = 30.0) -> None:
    """Close this process's pool and stop its servers; the next `pool()` creates a new one.

    Waits at most `timeout` seconds, then raises TimeoutError. Do not call it on the background
    loop, which closes the pool itself when it stops.
    """
    background_loop.run(_close_pool(), timeout)


async def _close_pool() -> None:
    with _lock:
        current = _pools.pop(os.getpid(), None)
    if current is not None:
        await current.close()
