"""Subscribe to change notifications about one execution, in an event loop.

A notification carries no data: the subscriber reads new events from the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

from .shared_groups import listening
from .task_started import StartedTasks


def channel_group(execution_id: int | str) -> str:
    """Return the channel layer's group for notifications about an execution."""
    return f"execution.{execution_id}"


class Subscription:
    """Receives the notifications of a group; receives nothing while Redis is unavailable.

    `started_tasks` collects the task-started notices.
    """

    def __init__(self, group: str) -> None:
        self.started_tasks = StartedTasks()
        self._notified = asyncio.Event()
        self._listening = listening(group, self._receive)

    async def __aenter__(self) -> Self:
        await self._listening.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self._listening.__aexit__(*raised)

    async def wait(self, timeout: float) -> bool:
        """Wait for a notification since the last call; False if none arrives in `timeout` s."""
        with suppress(TimeoutError):
            # Not `wait_for`, which makes a task for each wait.
            async with asyncio.timeout(timeout):
                await self._notified.wait()
        notified = self._notified.is_set()
        self._notified.clear()
        return notified

    def _receive(self, message: Mapping[str, Any]) -> None:
        self.started_tasks.receive(message)
        self._notified.set()
