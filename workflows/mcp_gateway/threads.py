"""Talking to the database from an event loop."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from channels.db import DatabaseSyncToAsync

P = ParamSpec("P")
T = TypeVar("T")

#: Calls wait in the event loop, not in here; these are for the moments they read and write.
_POOL = ThreadPoolExecutor(max_workers=8, thread_name_prefix="mcp-gateway")


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` where it may talk to the database, which it lets go of afterwards."""
    run = DatabaseSyncToAsync(work, thread_sensitive=False, executor=_POOL)
    found: T = await run(*args, **kwargs)
    return found
