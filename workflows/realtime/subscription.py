"""Subscribe to change notifications about one execution, in an event loop.

A notification carries no data: the subscriber reads new events from the database.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Self

from channels.layers import get_channel_layer
from redis.exceptions import RedisError

from .task_started import StartedTasks

#: Time limit for joining a group of the channel layer, in seconds.
_LAYER_SECONDS = 3.0

logger = logging.getLogger(__name__)


def channel_group(execution_id: int | str) -> str:
    """Return the channel layer's group for notifications about an execution."""
    return f"execution.{execution_id}"


class Subscription:
    """Receives the notifications of a group; receives nothing while Redis is unavailable.

    `started_tasks` collects the task-started notices.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self.started_tasks = StartedTasks()
        self._subscribed = asyncio.Event()
        self._notified = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._listen())
        await self._subscribed.wait()
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def wait(self, timeout: float) -> bool:
        """Wait for a notification since the last call; False if none arrives in `timeout` s."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._notified.wait(), timeout)
        notified = self._notified.is_set()
        self._notified.clear()
        return notified

    async def _listen(self) -> None:
        try:
            await self._receive()
        except (RedisError, OSError, TimeoutError) as error:
            logger.warning("no notifications for %s, only polling: %s", self._group, error)
        finally:
            self._subscribed.set()

    async def _receive(self) -> None:
        layer = get_channel_layer()
        async with asyncio.timeout(_LAYER_SECONDS):
            channel = await layer.new_channel()
        try:
            async with asyncio.timeout(_LAYER_SECONDS):
                await layer.group_add(self._group, channel)
            self._subscribed.set()
            # The task is cancelled only here; `receive` then releases the channel.
            while True:
                self.started_tasks.receive(await layer.receive(channel))
                self._notified.set()
        finally:
            await layer.group_discard(self._group, channel)
