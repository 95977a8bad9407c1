"""Following one execution: replay from PostgreSQL, then news through the channel layer.

News carries no data: it says that there is something to read.  A client therefore sees every event
once and in order, whatever becomes of a piece of news.  `task_started` alone lives in the news.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import get_user, get_user_model
from django.http import HttpRequest

from workflows.engine.status import ExecutionStatus
from workflows.executions import access
from workflows.permissions.tokens import usable_token
from workflows.realtime.event_serialization import wire_events
from workflows.realtime.subscription import Subscription, channel_group

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: How often a silent stream shows that it lives, looks for missed news and checks the rights.
HEARTBEAT_SECONDS = 15.0
#: What a client waits before it comes back.
_RETRY_MS = 2000
_BATCH = 200


@dataclass(frozen=True, slots=True)
class Watcher:
    """Who follows, and by which credential: exactly one of token and session, or neither."""

    user_id: int
    token_id: int | None = None
    session_key: str | None = None

    def user(self) -> User | None:
        """The active user whose credential still holds, or None."""
        if self.token_id is not None:
            token = usable_token(self.token_id)
            return token.user if token is not None and "read" in token.scopes else None
        if self.session_key is not None:
            return self._session_user()
        return get_user_model().objects.filter(pk=self.user_id, is_active=True).first()

    def _session_user(self) -> User | None:
        request = HttpRequest()
        store = import_module(settings.SESSION_ENGINE).SessionStore
        request.session = store(self.session_key)
        found = get_user(request)
        return found if found.is_authenticated and found.pk == self.user_id else None


@dataclass(frozen=True, slots=True)
class _News:
    """What a look into the journal found; `ended` when nothing can come any more."""

    events: list[dict[str, Any]]
    allowed: bool
    ended: bool


def _look(execution_id: int, after: int, watcher: Watcher) -> _News:
    """Rights first, then the journal: nothing leaves for somebody who has just lost them."""
    user = watcher.user()
    if user is None:
        return _News([], allowed=False, ended=True)
    row = access.visible_to(user).filter(pk=execution_id).values("status", "version").first()
    if row is None:
        return _News([], allowed=False, ended=True)
    events = wire_events(execution_id, after=after, limit=_BATCH)
    last = events[-1]["seq"] if events else after  # the last of a list always has one
    final = ExecutionStatus(row["status"]).is_final and last >= row["version"]
    return _News(events, allowed=True, ended=final)


async def follow(execution_id: int, *, after: int, watcher: Watcher) -> AsyncIterator[bytes]:
    """Server-sent events with seq > `after`, until the final one or until the rights are gone."""
    # It listens before the first look, so that nothing falls between replay and news.
    async with Subscription(channel_group(execution_id)) as subscription:
        yield f"retry: {_RETRY_MS}\n\n".encode()
        while True:
            news = await database_sync_to_async(_look)(execution_id, after, watcher)
            for event in news.events:
                after = event.get("seq", after)
                subscription.started_tasks.mark_delivered(event)
                yield _event(event)
            if news.ended:
                if not news.allowed:
                    yield b"event: access_ended\ndata: {}\n\n"
                return
            for start in subscription.started_tasks.take(execution_id):
                yield _event(start)
            if len(news.events) < _BATCH and not await subscription.wait(HEARTBEAT_SECONDS):
                yield b": still here\n\n"


def _event(event: dict[str, Any]) -> bytes:
    data = json.dumps(event, separators=(",", ":"))
    # Without an id the client keeps the last one, from which it goes on when it comes back.
    place = f"id: {event['seq']}\n" if "seq" in event else ""
    return f"{place}event: {event['type']}\ndata: {data}\n\n".encode()
