"""Use the database from an event loop."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from channels.db import DatabaseSyncToAsync

P = ParamSpec("P")
T = TypeVar("T")

#: Threads only read and write the database; waiting calls stay in the event loop.
_POOL = ThreadPoolExecutor(max_workers=8, thread_name_prefix="mcp-gateway")


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread that closes its database connection afterwards."""
    run = DatabaseSyncToAsync(work, thread_sensitive=False, executor=_POOL)
    result: T = await run(*args, **kwargs)
    return result
