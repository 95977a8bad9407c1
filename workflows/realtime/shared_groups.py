"""Listen to groups of the channel layer: one channel for all listeners of a group in this process.

Messages carry ids and numbers, so that it is cheap to hand one to a thousand listeners.  A message
may be lost: listeners read the database now and then too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

from channels.layers import get_channel_layer
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

#: Time limit for joining or leaving a group of the channel layer, in seconds.
_LAYER_SECONDS = 3.0

#: Called in the event loop with each message; it must not block.
Listener = Callable[[Mapping[str, Any]], None]


class _Group:
    """The channel that joined a group, and its listeners; it leaves with the last of them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._listeners: list[Listener] = []
        #: Set when the channel has joined, or could not join.
        self.joined = asyncio.Event()
        self.ended = False
        self._task = asyncio.create_task(self._listen())

    def add(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def remove(self, listener: Listener) -> bool:
        """Remove a listener; whether it was the last one."""
        self._listeners.remove(listener)
        return not self._listeners

    async def leave(self) -> None:
        self._task.cancel()
        with suppress(TimeoutError):  # Redis does not answer
            async with asyncio.timeout(2 * _LAYER_SECONDS):
                await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self) -> None:
        try:
            await self._receive()
        except (RedisError, OSError, TimeoutError) as error:
            logger.warning("no notifications for %s, only polling: %s", self._name, error)
        finally:
            self.ended = True
            self.joined.set()

    async def _receive(self) -> None:
        layer = get_channel_layer()
        async with asyncio.timeout(_LAYER_SECONDS):
            channel = await layer.new_channel()
        try:
            async with asyncio.timeout(_LAYER_SECONDS):
                await layer.group_add(self._name, channel)
            self.joined.set()
            # The task is cancelled only here; `receive` then releases the channel.
            while True:
                message = await layer.receive(channel)
                for listener in tuple(self._listeners):
                    listener(message)
        finally:
            async with asyncio.timeout(_LAYER_SECONDS):
                await layer.group_discard(self._name, channel)


#: The groups of each event loop, which ends with it.
_groups: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Group]] = WeakKeyDictionary()


@asynccontextmanager
async def listening(name: str, listener: Listener) -> AsyncIterator[None]:
    """Call `listener` with each message to the group; with none while Redis is unavailable."""
    groups = _groups.setdefault(asyncio.get_running_loop(), {})
    group = groups.get(name)
    if group is None or group.ended:  # a new listener tries again
        group = groups[name] = _Group(name)
    group.add(listener)
    try:
        await group.joined.wait()
        yield
    finally:
        if group.remove(listener):
            if groups.get(name) is group:
                del groups[name]
            await group.leave()
