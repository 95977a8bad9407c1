"""Server-sent events of one execution: replay from PostgreSQL, then follow change notifications.

A notification carries no data; it only says that there is something to read. So a client gets every
event once and in order, even if a notification is lost. Only `task_started` is sent in the
notification itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from channels.db import aclose_old_connections

from workflows.realtime.batched_reads import ReadFailed, seconds_to_poll
from workflows.realtime.clients import LiveClient
from workflows.realtime.event_serialization import server_sent_event
from workflows.realtime.execution_reads import Position, new_events
from workflows.realtime.subscription import Subscription, channel_group

#: Interval at which an idle stream sends a comment, polls for events and checks the rights.
HEARTBEAT_SECONDS = 15.0
#: How long a client waits before it reconnects.
_RETRY_MS = 2000
_BATCH = 200


async def follow(execution_id: int, *, after: int, client: LiveClient) -> AsyncIterator[bytes]:
    """Yield server-sent events with seq > `after` until the final event or a loss of rights."""
    # Other threads read for this stream: return the request's database connection.
    await aclose_old_connections()
    # Subscribe before the first read, so that no event is missed in between.
    async with Subscription(channel_group(execution_id)) as subscription:
        yield f"retry: {_RETRY_MS}\n\n".encode()
        while True:
            try:
                batch = await new_events(Position(client, execution_id, after, _BATCH))
            except ReadFailed:
                return  # the client reconnects
            for event in batch.events:
                after = event.get("seq", after)
                subscription.started_tasks.mark_delivered(event)
            if batch.events:
                # One part: each part that is sent costs as much as all its events.
                yield b"".join(event.sse for event in batch.events)
            if batch.ended:
                if not batch.is_visible:
                    yield b"event: access_ended\ndata: {}\n\n"
                return
            for start in subscription.started_tasks.take(execution_id):
                yield server_sent_event(start)
            if len(batch.events) >= _BATCH:
                continue
            if not await subscription.wait(seconds_to_poll(HEARTBEAT_SECONDS)):
                yield b": still here\n\n"
