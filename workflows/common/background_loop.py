"""One asyncio event loop per process, in a daemon thread.

Pooled MCP sessions, async tools and publishing outlive a single job, so they cannot run on a loop
that a job creates and closes. A forked child gets its own loop and never uses the parent's, because
both would share its selector.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
Closer = Callable[[], Awaitable[None]]

#: Total time in seconds for all closers when the process ends.
CLOSE_SECONDS = 8.0

logger = logging.getLogger(__name__)


class _Background:
    """A running loop, its thread, and the closers to await before it stops."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.closers: list[Closer] = []
        started = threading.Event()
        self.thread = threading.Thread(
            target=self._serve, args=(started,), name="holdpoint-background", daemon=True
        )
        self.thread.start()
        started.wait()

    def _serve(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(started.set)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def stop(self) -> None:
        """Await the closers, cancel other tasks, end the thread; safe to call twice."""
        if not self.thread.is_alive():
            return
        closing = asyncio.run_coroutine_threadsafe(self._wind_down(), self.loop)
        try:
            closing.result(CLOSE_SECONDS + 2)
        except Exception:
            logger.warning("the background loop did not wind down cleanly", exc_info=True)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(timeout=2)

    async def _wind_down(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                for closer in reversed(self.closers):
                    await closer()
        except TimeoutError:
            logger.warning("closing background resources took over %s s; leaving", CLOSE_SECONDS)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Slot:
    """The background loop of this process, created on first use and replaced after a fork."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.current: _Background | None = None


_slot = _Slot()
#: Loops of parent processes. Referenced, so that no finalizer closes a shared selector.
_inherited: list[_Slot] = []


def _forget_after_fork() -> None:
    global _slot
    _inherited.append(_slot)
    _slot = _Slot()


def _get() -> _Background:
    with _slot.lock:
        if _slot.current is None or not _slot.current.thread.is_alive():
            _slot.current = _Background()
        return _slot.current


def loop() -> asyncio.AbstractEventLoop:
    """Return the background loop of this process; start it on first use."""
    return _get().loop


def submit(coro: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    """Start `coro` on the background loop; cancelling the future cancels the coroutine."""
    return asyncio.run_coroutine_threadsafe(coro, loop())


def run(coro: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
    """Run `coro` on the background loop and wait for its result, at most `timeout` seconds.

    The coroutine is cancelled when the wait ends for any reason. Raises TimeoutError after
    `timeout`, and RuntimeError when called on the thread of the loop.
    """
    background = _get()
    if threading.current_thread() is background.thread:
        coro.close()
        raise RuntimeError("run() would wait for its own loop; await the coroutine instead")
    future = asyncio.run_coroutine_threadsafe(coro, background.loop)
    try:
        return future.result(timeout)
    finally:
        future.cancel()


async def await_on_loop(coro: Coroutine[Any, Any, T]) -> T:
    """Await `coro` on the background loop, from that loop or from any other."""
    if asyncio.get_running_loop() is loop():
        return await coro
    return await asyncio.wrap_future(submit(coro))


def register_closer(closer: Closer) -> None:
    """Register a coroutine function to await before the loop stops, in reverse order."""
    _get().closers.append(closer)


def shutdown() -> None:
    """Await the closers and stop the loop; the next use starts a new one."""
    background = _slot.current
    if background is None:
        return
    # Stop before the loop is replaced, because closers still use it.
    background.stop()
    with _slot.lock:
        if _slot.current is background:
            _slot.current = None


os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(shutdown)
