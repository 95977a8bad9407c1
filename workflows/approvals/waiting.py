"""Long poll: answer when an approval is decided, without a thread per waiting caller.

The response is sent when the status is no longer `pending`, or after the time that the caller is
willing to wait.  A notification makes it look at the version of the execution, which costs little;
the approval is read only after a new version, with the rights of that moment.
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
from workflows.models import Execution
from workflows.realtime.clients import LiveClient
from workflows.realtime.subscription import Subscription, channel_group

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Longest wait of a request: clients and some proxies time out after a minute.
MAX_WAIT_SECONDS = 55
#: The version is read without a notification too, because Redis may be unavailable.
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
    body: Body, seconds: float, client: LiveClient, read: Read, render: Render | None
) -> AsyncIterator[bytes]:
    end = time.monotonic() + seconds
    # Subscribe before reading, so that no decision is missed in between.
    async with Subscription(channel_group(body["execution_id"])) as subscription:
        # In the thread of the request, which thereby returns its database connection.
        newer = await database_sync_to_async(_newer)(client, read, body)
        while newer is not None:
            body, left = newer, end - time.monotonic()
            if body["status"] != "pending" or left <= 0:
                break
            await subscription.wait(min(left, _POLL_SECONDS))
            newer = await _in_shared_thread(_newer, client, read, body)
    shown = render(body) if render else body
    yield json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode()


def _newer(client: LiveClient, read: Read, body: Body) -> Body | None:
    """Return the approval, read again if its version has changed; None without a right to it."""
    versions = Execution.objects.filter(pk=body["execution_id"]).values_list("version", flat=True)
    if versions.first() == body["version"]:
        return body
    user = client.user()
    return read(user) if user is not None else None


async def _in_shared_thread(function: Callable[..., Body | None], *args: Any) -> Body | None:
    """Call `function` in one of the few threads that all long polls share."""
    found: Body | None = await database_sync_to_async(function, thread_sensitive=False)(*args)
    return found
