"""Send changes to the sockets of all processes, over the channel layer.

This module receives the signal `execution_changed`.  A lost message delays a socket until its next
poll (`backstop_seconds`).  Sending never blocks or fails the code that recorded the events.
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

from . import group_messages
from .group_messages import (
    NOTICES,
    REVIEWS,
    ExecutionChanged,
    HoldActivity,
    UnreadChanged,
    execution_changed_message,
    execution_group,
)

logger = logging.getLogger(__name__)

#: Time limit for sending one message, in seconds.
SEND_SECONDS = 3.0
_MAX_STARTED = 1000


@dataclass(frozen=True, slots=True)
class _Change:
    """Events `first` to `last` were recorded, and these tasks have started."""

    first: int
    last: int
    started: tuple[TaskStarted, ...] = ()

    def merged_with(self, later: _Change) -> _Change:
        """Return one change that covers both."""
        first, last = min(self.first, later.first), max(self.last, later.last)
        return _Change(first, last, (*self.started, *later.started)[-_MAX_STARTED:])


class _Outbox:
    """Changes to send, by execution; waiting changes of one execution are merged."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, _Change] = {}
        self._sending = False
        self._closes_with: object = None

    def put(self, execution_id: int, change: _Change) -> None:
        """Add a change; the background loop sends it."""
        with self._lock:
            known = self._waiting.get(execution_id)
            self._waiting[execution_id] = known.merged_with(change) if known else change
            if self._sending:
                return
            self._sending = True
        try:
            self._register_closer()
            background_loop.submit(self._drain())
        except RuntimeError:
            # The process is ending and its loop is gone.
            with self._lock:
                self._sending = False

    def _register_closer(self) -> None:
        """Send the remaining changes when the process ends."""
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
                execution_id, change = next(iter(self._waiting.items()))
                del self._waiting[execution_id]
            await _broadcast(execution_id, change)


_outbox = _Outbox()


async def _broadcast(execution_id: int, change: _Change) -> None:
    # Messages are sent one after another; the queue is first, because reviewers wait for pauses.
    # The queue does not show started tasks.
    groups: dict[str, tuple[TaskStarted, ...]] = (
        {REVIEWS: ()} if change.first <= change.last else {}
    )
    groups[execution_group(execution_id)] = change.started
    messages = {
        group: execution_changed_message(execution_id, change.first, change.last, started)
        for group, started in groups.items()
    }
    await _send(f"execution {execution_id}", messages)


async def _send(
    about: object, messages: Mapping[str, ExecutionChanged | HoldActivity | UnreadChanged]
) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    for group, message in messages.items():
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await layer.group_send(group, message)
        except Exception as error:
            # Redis is unavailable; the sockets poll PostgreSQL.
            logger.warning("no notification about %s: %s", about, error)
            return


def hold_activity(execution_id: int, hold_id: str, *, viewer_id: int = 0) -> None:
    """Notify pages, after commit, that the claim or the viewers of a hold changed.

    The journal has no events for these. Pages of the viewer `viewer_id` are not notified.
    """
    transaction.on_commit(lambda: _submit_hold_activity(execution_id, hold_id, viewer_id))


def _submit_hold_activity(execution_id: int, hold_id: str, viewer_id: int) -> None:
    message = group_messages.hold_activity(execution_id, hold_id, viewer_id)
    groups = {REVIEWS: message, execution_group(execution_id): message}
    with contextlib.suppress(RuntimeError):  # the process is ending
        background_loop.submit(_send(f"execution {execution_id}", groups))


def unread_changed(user_ids: Collection[int]) -> None:
    """Notify the pages of these users, after commit, that their unread notices changed."""
    if user_ids:
        message = group_messages.unread_changed(user_ids)
        transaction.on_commit(lambda: _submit_unread_changed(message))


def _submit_unread_changed(message: UnreadChanged) -> None:
    with contextlib.suppress(RuntimeError):  # the process is ending
        background_loop.submit(_send("notices", {NOTICES: message}))


def on_execution_changed(
    sender: object,
    *,
    execution_id: str,
    first_seq: int,
    last_seq: int,
    started: Sequence[str] = (),
    **more: Any,
) -> None:
    """Handle the signal `execution_changed`."""
    notices = task_started_notices(started, after=last_seq, at=int(time.time() * 1000))
    _outbox.put(int(execution_id), _Change(first_seq, last_seq, tuple(notices)))


def connect() -> None:
    """Connect to the signal; called once when the apps are ready."""
    execution_changed.connect(on_execution_changed, dispatch_uid="reviews.sockets.broadcasts")


def _forget_after_fork() -> None:
    global _outbox
    _outbox = _Outbox()


os.register_at_fork(after_in_child=_forget_after_fork)
