"""A thread per request, which gives its database session back however the request ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asgiref.sync import ThreadSensitiveContext
from django.db import close_old_connections

Application = Callable[[Any, Any, Any], Awaitable[None]]


def lending(application: Application) -> Application:
    """`application` as before, and what its thread borrowed from the pool is returned at the end.

    Django returns it with a signal, which is not sent when daphne has given a request up (the
    client went away and the view was still at work).  Its thread would end with the session in its
    hands, and the pool would count it as lent for ever.
    """

    async def lent(scope: Any, receive: Any, send: Any) -> None:
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="request")
        try:
            async with ThreadSensitiveContext(executor=thread):
                await application(scope, receive, send)
        finally:
            # Behind whatever it still does; nobody waits for that.
            thread.submit(close_old_connections)
            thread.shutdown(wait=False)

    return lent
