"""Hearing of one execution's moves through the channel layer, in an event loop.

News carries no data: it says that there is something to read.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Self

from channels.layers import get_channel_layer
from redis.exceptions import RedisError

from .task_started import StartedTasks

#: What Redis may take to let a listener join.
_LAYER_SECONDS = 3.0

logger = logging.getLogger(__name__)


def channel_group(execution_id: int | str) -> str:
    """The channel layer's group that hears of an execution's moves."""
    return f"execution.{execution_id}"


class Subscription:
    """Hears that a group was told something.  Deaf while Redis is away.

    `starts` keeps what it heard of tasks that run.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self.started_tasks = StartedTasks()
        self._listens = asyncio.Event()
        self._told = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._listen())
        await self._listens.wait()
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def wait(self, timeout: float) -> bool:
        """Wait for news that came since the last call; False when none came in `timeout` s."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._told.wait(), timeout)
        told = self._told.is_set()
        self._told.clear()
        return told

    async def _listen(self) -> None:
        try:
            await self._subscribed()
        except (RedisError, OSError, TimeoutError) as error:
            logger.warning("no news of %s, only the heartbeat: %s", self._group, error)
        finally:
            self._listens.set()

    async def _subscribed(self) -> None:
        layer = get_channel_layer()
        async with asyncio.timeout(_LAYER_SECONDS):
            channel = await layer.new_channel()
        try:
            async with asyncio.timeout(_LAYER_SECONDS):
                await layer.group_add(self._group, channel)
            self._listens.set()
            # Cancelled only in here, where the layer then gives the channel up.
            while True:
                self.started_tasks.receive(await layer.receive(channel))
                self._told.set()
        finally:
            await layer.group_discard(self._group, channel)
