"""Read the database once for all connections of this process that wait for news.

A connection that hears of a change asks a question.  All questions that arrive while a batch is
read are the next batch: a burst of news costs a few statements, however many people are connected.
Each batch starts after its questions were asked, so an answer is never older than its question, and
rights that were taken away before count.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from django.db import InterfaceError, OperationalError

Q = TypeVar("Q")
A = TypeVar("A")

logger = logging.getLogger(__name__)


class ReadFailed(Exception):
    """The batch could not be read; the reason is in the log, once."""


@dataclass
class _Queue(Generic[Q, A]):
    """Questions of the next batch, and the task that reads batches until none is waiting."""

    waiting: list[tuple[Q, asyncio.Future[A]]] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


class BatchedRead(Generic[Q, A]):
    """A function from many questions to their answers, that each caller awaits for one question.

    An answer that is an exception is raised.
    """

    def __init__(self, read: Callable[[Sequence[Q]], Sequence[A | Exception]]) -> None:
        self._read = read
        # One per event loop, which it ends with.
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue[Q, A]]
        self._queues = WeakKeyDictionary()

    async def __call__(self, question: Q) -> A:
        """Return the answer; raises ReadFailed if the database cannot be read."""
        loop = asyncio.get_running_loop()
        queue = self._queues.setdefault(loop, _Queue())
        answer: asyncio.Future[A] = loop.create_future()
        queue.waiting.append((question, answer))
        if queue.task is None or queue.task.done():
            queue.task = asyncio.create_task(self._read_batches(queue))
        return await answer

    async def _read_batches(self, queue: _Queue[Q, A]) -> None:
        while queue.waiting:
            batch, queue.waiting = queue.waiting, []
            answers = await self._answers([question for question, _ in batch])
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():
                    continue  # its connection was closed meanwhile
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    async def _answers(self, questions: list[Q]) -> Sequence[A | Exception]:
        # Not in the thread of the request or socket that happened to ask first.
        read = database_sync_to_async(self._read, thread_sensitive=False)
        try:
            answers: Sequence[A | Exception] = await read(questions)
        except Exception as error:
            unavailable = isinstance(error, OperationalError | InterfaceError)
            if len(questions) > 1 and not unavailable:
                # One question that cannot be answered must not end the connections of others.
                return [each for one in questions for each in await self._answers([one])]
            logger.exception("news for %d connections could not be read", len(questions))
            return [ReadFailed() for _ in questions]
        return answers


def seconds_to_poll(interval: float) -> float:
    """Return the seconds to the next multiple of `interval`.

    All connections of a process poll at these moments, so that one batch answers them.
    """
    return interval - asyncio.get_running_loop().time() % interval
