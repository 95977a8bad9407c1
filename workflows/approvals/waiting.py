"""Long poll: answer when an approval is decided, without a thread per waiting caller.

The response streams one JSON document.  Its headers are sent at once, its body when the status is
no longer `pending`, or after the time that the caller is willing to wait.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from channels.db import database_sync_to_async
from django.http import HttpResponseBase
from rest_framework.request import Request

from workflows.api.events import SlottedStream, connection_slot, released_at_end, stream_client
from workflows.api.stream import StreamClient
from workflows.realtime.subscription import Subscription, channel_group

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Longest wait of a request: clients and some proxies time out after a minute.
MAX_WAIT_SECONDS = 55
#: The approval is read without a notification too, because Redis may be unavailable.
_POLL_SECONDS = 10.0

Body = dict[str, Any]
Read = Callable[["User"], Body | None]
Render = Callable[[Body], Body]


def waiting_response(
    request: Request, body: Body, seconds: float, *, read: Read, render: Render | None = None
) -> HttpResponseBase:
    """Return a response that waits while the status is `pending`, and ends with the approval.

    `body` is the approval now; `read` returns it later, or None if the user may not see it any
    more; `render` makes another document of it.  Raises Throttled if the caller has too many open
    connections.
    """
    client = stream_client(request, "ask")
    slot = connection_slot(request)
    response = SlottedStream(
        released_at_end(_answer(body, seconds, client, read, render), slot),
        content_type="application/json",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
    response.slot = slot
    return response


async def _answer(
    body: Body, seconds: float, client: StreamClient, read: Read, render: Render | None
) -> AsyncIterator[bytes]:
    end = time.monotonic() + seconds
    # Subscribe before reading, so that no decision is missed in between.
    async with Subscription(channel_group(body["execution_id"])) as subscription:
        while True:
            newer = await database_sync_to_async(_read)(client, read)
            body = newer or body
            left = end - time.monotonic()
            if newer is None or body["status"] != "pending" or left <= 0:
                break
            await subscription.wait(min(left, _POLL_SECONDS))
    shown = render(body) if render else body
    yield json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode()


def _read(client: StreamClient, read: Read) -> Body | None:
    """Read the approval; None once the credential is not valid any more."""
    user = client.user()
    return read(user) if user is not None else None
