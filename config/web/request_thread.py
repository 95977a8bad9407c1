"""Run each request in a thread of its own that returns its database connection to the pool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import ThreadSensitiveContext
from django.db import close_old_connections

Application = Callable[[Any, Any, Any], Awaitable[None]]
P = ParamSpec("P")
T = TypeVar("T")

#: A thread without a call for so long ends: a stream or a long poll that waits keeps none.
IDLE_SECONDS = 1.0


def in_request_thread(application: Application) -> Application:
    """Wrap an ASGI application so that its thread's connection always returns to the pool.

    Django returns connections on the `request_finished` signal.  daphne cancels a request whose
    client has disconnected while its view still runs; the signal is not sent then, and the pool
    would lose the connection.
    """

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        thread = RequestThread()
        try:
            async with ThreadSensitiveContext(executor=thread):
                await application(scope, receive, send)
        finally:
            thread.end()

    return wrapped


class RequestThread(Executor):
    """Run the calls of one request one after the other, in a thread that ends while it is idle.

    The next call after that starts another thread.  All methods are called in the event loop.
    """

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._last: Future[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="request")
        future = self._thread.submit(fn, *args, **kwargs)
        self._last = future
        self._wait()
        return future

    def end(self) -> None:
        """Return the connection and end the thread after the view, without waiting for it."""
        if self._timer is not None:
            self._timer.cancel()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.submit(close_old_connections)
            thread.shutdown(wait=False)

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if self._last is not None and not self._last.done():
            self._wait()
        else:
            self.end()
