"""The only receiver of `execution_moved`: tells the sockets of every process that there is news.

News is ids and numbers; a lost one costs a socket at most its backstop.  Sending never holds up or
fails whoever recorded the events.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from typing import Any

from channels.layers import get_channel_layer

from workflows import background
from workflows.signals import execution_moved

from .messages import REVIEWS, execution_group, moved

logger = logging.getLogger(__name__)

#: Seconds that one message may take before it is given up.
SEND_SECONDS = 3.0


class _Outbox:
    """What is still to be told, per execution; news that waits is merged, so it stays small."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[int, int]] = {}
        self._sending = False
        self._closes_with: object = None

    def put(self, execution_id: int, first: int, last: int) -> None:
        """Leave news; the background loop sends it."""
        with self._lock:
            known = self._waiting.get(execution_id, (first, last))
            self._waiting[execution_id] = (min(known[0], first), max(known[1], last))
            if self._sending:
                return
            self._sending = True
        try:
            self._send_before_the_end()
            background.submit(self._drain())
        except RuntimeError:
            # The process is ending and its loop is gone.
            with self._lock:
                self._sending = False

    def _send_before_the_end(self) -> None:
        """A process that ends sends first what it has left."""
        loop = background.loop()
        if self._closes_with is not loop:
            self._closes_with = loop
            background.at_close(self._drain)

    async def _drain(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._sending = False
                    return
                execution_id, (first, last) = next(iter(self._waiting.items()))
                del self._waiting[execution_id]
            await _tell(execution_id, first, last)


_outbox = _Outbox()


async def _tell(execution_id: int, first: int, last: int) -> None:
    message = moved(execution_id, first, last)
    layer = get_channel_layer()
    if layer is None:
        return
    for group in (execution_group(execution_id), REVIEWS):
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await layer.group_send(group, message)
        except Exception as error:
            # Redis is away.  What happened is in PostgreSQL, where the sockets look by themselves.
            logger.warning("no news of execution %s: %s", execution_id, error)
            return


def on_execution_moved(
    sender: object, *, execution_id: str, first_seq: int, last_seq: int, **more: Any
) -> None:
    """Receiver of `execution_moved`."""
    _outbox.put(int(execution_id), first_seq, last_seq)


def connect() -> None:
    """Listen; called once when the apps are ready."""
    execution_moved.connect(on_execution_moved, dispatch_uid="reviews.notifications")


def _forget_after_fork() -> None:
    global _outbox
    _outbox = _Outbox()


os.register_at_fork(after_in_child=_forget_after_fork)
