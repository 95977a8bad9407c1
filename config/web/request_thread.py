"""Run each request in a thread of its own that returns its database connection to the pool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asgiref.sync import ThreadSensitiveContext
from django.db import close_old_connections

Application = Callable[[Any, Any, Any], Awaitable[None]]


def in_request_thread(application: Application) -> Application:
    """Wrap an ASGI application so that its thread's connection always returns to the pool.

    Django returns connections on the `request_finished` signal.  daphne cancels a request whose
    client has disconnected while its view still runs; the signal is not sent then, and the pool
    would lose the connection.
    """

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="request")
        try:
            async with ThreadSensitiveContext(executor=thread):
                await application(scope, receive, send)
        finally:
            # Runs after the view if it is still at work; nothing waits for it.
            thread.submit(close_old_connections)
            thread.shutdown(wait=False)

    return wrapped
