"""Server-sent events of one execution: replay from PostgreSQL, then follow change notifications.

A notification carries no data; it only says that there is something to read. So a client gets every
event once and in order, even if a notification is lost. Only `task_started` is sent in the
notification itself.
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

#: Interval at which an idle stream sends a comment, polls for events and checks the rights.
HEARTBEAT_SECONDS = 15.0
#: How long a client waits before it reconnects.
_RETRY_MS = 2000
_BATCH = 200


@dataclass(frozen=True, slots=True)
class StreamClient:
    """The user of a stream and the credential: a token, a session, or neither."""

    user_id: int
    token_id: int | None = None
    session_key: str | None = None
    scopes: frozenset[str] = frozenset({"read"})

    def user(self) -> User | None:
        """Return the active user if the credential is still valid, or None."""
        if self.token_id is not None:
            token = usable_token(self.token_id)
            has_scope = token is not None and not self.scopes.isdisjoint(token.scopes)
            return token.user if token is not None and has_scope else None
        if self.session_key is not None:
            return self._session_user()
        return get_user_model().objects.filter(pk=self.user_id, is_active=True).first()

    def _session_user(self) -> User | None:
        request = HttpRequest()
        store = import_module(settings.SESSION_ENGINE).SessionStore
        request.session = store(self.session_key)
        user = get_user(request)
        return user if user.is_authenticated and user.pk == self.user_id else None


@dataclass(frozen=True, slots=True)
class _Batch:
    """New events; `ended` if no further event can follow."""

    events: list[dict[str, Any]]
    allowed: bool
    ended: bool


def _read_events(execution_id: int, after: int, client: StreamClient) -> _Batch:
    """Check the rights, then read: a user who has lost them gets no further event."""
    user = client.user()
    if user is None:
        return _Batch([], allowed=False, ended=True)
    row = access.visible_to(user).filter(pk=execution_id).values("status", "version").first()
    if row is None:
        return _Batch([], allowed=False, ended=True)
    events = wire_events(execution_id, after=after, limit=_BATCH)
    last = events[-1]["seq"] if events else after  # the last event of a list always has a seq
    final = ExecutionStatus(row["status"]).is_final and last >= row["version"]
    return _Batch(events, allowed=True, ended=final)


async def follow(execution_id: int, *, after: int, client: StreamClient) -> AsyncIterator[bytes]:
    """Yield server-sent events with seq > `after` until the final event or a loss of rights."""
    # Subscribe before the first read, so that no event is missed in between.
    async with Subscription(channel_group(execution_id)) as subscription:
        yield f"retry: {_RETRY_MS}\n\n".encode()
        while True:
            batch = await database_sync_to_async(_read_events)(execution_id, after, client)
            for event in batch.events:
                after = event.get("seq", after)
                subscription.started_tasks.mark_delivered(event)
                yield _event(event)
            if batch.ended:
                if not batch.allowed:
                    yield b"event: access_ended\ndata: {}\n\n"
                return
            for start in subscription.started_tasks.take(execution_id):
                yield _event(start)
            if len(batch.events) < _BATCH and not await subscription.wait(HEARTBEAT_SECONDS):
                yield b": still here\n\n"


def _event(event: dict[str, Any]) -> bytes:
    data = json.dumps(event, separators=(",", ":"))
    # Without an id the client keeps the previous id and resumes from there.
    id_line = f"id: {event['seq']}\n" if "seq" in event else ""
    return f"{id_line}event: {event['type']}\ndata: {data}\n\n".encode()
