"""The only receiver of `execution_changed`: tells the sockets of every process that there is news.

News is ids and numbers; a lost one costs a socket at most its backstop.  Sending never holds up or
fails whoever recorded the events.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from channels.layers import get_channel_layer
from django.db import transaction

from workflows.common import background_loop
from workflows.realtime.signals import execution_changed
from workflows.realtime.task_started import TaskStarted, task_started_notices

from .messages import (
    REVIEWS,
    Moved,
    Rang,
    Touched,
    execution_group,
    hold_touched,
    moved,
    person_group,
)
from .messages import rang as rung

logger = logging.getLogger(__name__)

#: Seconds that one message may take before it is given up.
SEND_SECONDS = 3.0
_MOST_STARTED = 1000


@dataclass(frozen=True, slots=True)
class _News:
    """Events `first` to `last` were recorded, and these tasks run."""

    first: int
    last: int
    started: tuple[TaskStarted, ...] = ()

    def and_then(self, later: _News) -> _News:
        """Both as one piece."""
        first, last = min(self.first, later.first), max(self.last, later.last)
        return _News(first, last, (*self.started, *later.started)[-_MOST_STARTED:])


class _Outbox:
    """What is still to be told, per execution; news that waits is merged, so it stays small."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, _News] = {}
        self._sending = False
        self._closes_with: object = None

    def put(self, execution_id: int, news: _News) -> None:
        """Leave news; the background loop sends it."""
        with self._lock:
            known = self._waiting.get(execution_id)
            self._waiting[execution_id] = known.and_then(news) if known else news
            if self._sending:
                return
            self._sending = True
        try:
            self._send_before_the_end()
            background_loop.submit(self._drain())
        except RuntimeError:
            # The process is ending and its loop is gone.
            with self._lock:
                self._sending = False

    def _send_before_the_end(self) -> None:
        """A process that ends sends first what it has left."""
        loop = background_loop.loop()
        if self._closes_with is not loop:
            self._closes_with = loop
            background_loop.register_closer(self._drain)

    async def _drain(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._sending = False
                    return
                execution_id, news = next(iter(self._waiting.items()))
                del self._waiting[execution_id]
            await _tell(execution_id, news)


_outbox = _Outbox()


async def _tell(execution_id: int, news: _News) -> None:
    # One after the other over one connection: the queue, where a pause is waited for, comes first.
    # Who works on what is of no interest to it.
    groups: dict[str, tuple[TaskStarted, ...]] = {REVIEWS: ()} if news.first <= news.last else {}
    groups[execution_group(execution_id)] = news.started
    messages = {
        group: moved(execution_id, news.first, news.last, started)
        for group, started in groups.items()
    }
    await _send(f"execution {execution_id}", messages)


async def _send(about: object, messages: Mapping[str, Moved | Touched | Rang]) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    for group, message in messages.items():
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await layer.group_send(group, message)
        except Exception as error:
            # Redis is away.  What happened is in PostgreSQL, where the sockets look by themselves.
            logger.warning("no news of %s: %s", about, error)
            return


def touched(execution_id: int, hold_id: str) -> None:
    """Once the caller's transaction commits, tell the pages that somebody came to a hold or left.

    A claim, a release, a look: nothing of the run itself, so nothing in its journal.
    """
    transaction.on_commit(lambda: _submit_touched(execution_id, hold_id))


def _submit_touched(execution_id: int, hold_id: str) -> None:
    message = hold_touched(execution_id, hold_id)
    groups = {REVIEWS: message, execution_group(execution_id): message}
    with contextlib.suppress(RuntimeError):  # the process is ending
        background_loop.submit(_send(f"execution {execution_id}", groups))


def rang(user_ids: Collection[int]) -> None:
    """Once the caller's transaction commits, tell these people's pages to look at their bell."""
    if user_ids:
        groups = {person_group(each): rung() for each in user_ids}
        transaction.on_commit(lambda: _submit_rang(groups))


def _submit_rang(groups: Mapping[str, Rang]) -> None:
    with contextlib.suppress(RuntimeError):  # the process is ending
        background_loop.submit(_send("notices", groups))


def on_execution_moved(
    sender: object,
    *,
    execution_id: str,
    first_seq: int,
    last_seq: int,
    started: Sequence[str] = (),
    **more: Any,
) -> None:
    """Receiver of `execution_changed`."""
    found = task_started_notices(started, after=last_seq, at=int(time.time() * 1000))
    _outbox.put(int(execution_id), _News(first_seq, last_seq, tuple(found)))


def connect() -> None:
    """Listen; called once when the apps are ready."""
    execution_changed.connect(on_execution_moved, dispatch_uid="reviews.sockets.change_receiver")


def _forget_after_fork() -> None:
    global _outbox
    _outbox = _Outbox()


os.register_at_fork(after_in_child=_forget_after_fork)
