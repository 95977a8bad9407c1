"""Hints that wake threads which wait for work, so that they need not ask the database for it.

A thread reads the database when a hint arrives, when something stored becomes due, and every
`BACKSTOP_SECONDS`.  Hints are sent over the channel layer: they work behind every database proxy,
and one may be lost.  A process sends itself a probe every few seconds; while none arrives,
`is_listening` is false and its threads poll.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Final

from channels.layers import get_channel_layer
from django.db import transaction
from redis.exceptions import RedisError

from workflows.common import background_loop

from .shared_groups import listening

logger = logging.getLogger(__name__)

Callback = Callable[[str], object]

#: The group in which every change of an execution is announced, to sockets of the queue too.
CHANGES: Final = "reviews"
#: The group for messages and deliveries that were stored, or became due at once.
WORK: Final = "work"

BACKSTOP_SECONDS: Final = 30.0
_PROBE_SECONDS: Final = 3.0
#: Without a message for so long, this process hears nothing.
_DEAF_SECONDS: Final = 8.0
_SEND_SECONDS: Final = 3.0
_NEW, _PROBE = {"type": "work.new"}, {"type": "work.probe"}


class _Listener:
    """Receives the hints of this process, from `start` until `stop`."""

    def __init__(self) -> None:
        self._heard_at = float("-inf")
        self._task: Future[None] | None = None
        self._callbacks: defaultdict[str, list[Callback]] = defaultdict(list)

    def start(self) -> None:
        if self._task is None:
            self._task = background_loop.submit(self._listen())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task, self._heard_at = None, float("-inf")
        self.wake(CHANGES, WORK)

    @property
    def is_listening(self) -> bool:
        return time.monotonic() - self._heard_at < _DEAF_SECONDS

    def add(self, group: str, callback: Callback) -> None:
        self._callbacks[group].append(callback)

    def remove(self, group: str, callback: Callback) -> None:
        self._callbacks[group].remove(callback)

    def wake(self, *groups: str) -> None:
        for group in groups:
            for callback in tuple(self._callbacks[group]):
                callback(group)

    async def _listen(self) -> None:
        while True:
            async with listening(CHANGES, self._on_change), listening(WORK, self._on_work):
                await _probe()
                while self.is_listening:
                    await _probe()
            logger.warning("no hints about work arrive; polling for %s s", BACKSTOP_SECONDS)
            await asyncio.sleep(BACKSTOP_SECONDS)

    def _on_change(self, message: Mapping[str, Any]) -> None:
        self.wake(CHANGES)

    def _on_work(self, message: Mapping[str, Any]) -> None:
        was_deaf, self._heard_at = not self.is_listening, time.monotonic()
        if was_deaf:
            self.wake(CHANGES, WORK)  # hints may have been lost
        elif message["type"] == _NEW["type"]:
            self.wake(WORK)


_listener = _Listener()


def start() -> None:
    """Listen in this process from now on."""
    _listener.start()


def stop() -> None:
    """Stop listening, and wake all threads, which then see that they must end."""
    _listener.stop()


def is_listening() -> bool:
    """Whether hints arrive in this process."""
    return _listener.is_listening


@contextlib.contextmanager
def woken(groups: Collection[str], callback: Callback) -> Iterator[None]:
    """Call `callback` with the group at each hint of these groups; it must not block."""
    for group in groups:
        _listener.add(group, callback)
    try:
        yield
    finally:
        for group in groups:
            _listener.remove(group, callback)


def announce_work() -> None:
    """Wake the senders of all processes after the commit of what they shall send."""
    transaction.on_commit(_submit)


def _submit() -> None:
    with contextlib.suppress(RuntimeError):  # the process is ending
        background_loop.submit(_send(_NEW))


async def _probe() -> None:
    await _send(_PROBE)
    await asyncio.sleep(_PROBE_SECONDS)


async def _send(message: Mapping[str, str]) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    try:
        async with asyncio.timeout(_SEND_SECONDS):
            await layer.group_send(WORK, dict(message))
    except (RedisError, OSError, TimeoutError) as error:
        logger.info("no hint about work was sent: %s", error)
