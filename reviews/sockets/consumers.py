"""WebSocket consumers: live events of one execution, and of the review queue.

Redis delivers ids of changes; the events are read from PostgreSQL.  One task per socket reads and
sends, so events are sent in order, once and without gaps, and a slow client delays no other.
Sockets accept no decisions.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import os
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.layers import get_channel_layer
from channels.utils import await_many_dispatch
from redis.exceptions import RedisError

from reviews import conf
from reviews.notifications import inbox
from workflows.common.number_parsing import parse_natural_number
from workflows.conf import connections_each
from workflows.engine.bounded_json import BoundedJSONError, Limits, parse
from workflows.metrics import process_liveness
from workflows.realtime.connection_limits import acquire
from workflows.realtime.task_started import StartedTasks

from . import queries
from .authentication import NOT_FOUND, TOO_MANY, Credentials, Refusal
from .group_messages import (
    REVIEWS,
    ExecutionChanged,
    HoldActivity,
    UnreadChanged,
    execution_group,
    person_group,
)

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

#: Time limit for joining or leaving a group of the channel layer, in seconds.
LAYER_SECONDS = 3.0
BATCH = 200
INBOUND = Limits(max_bytes=4096, depth=4)
#: Maximum number of received messages in ten seconds; one more closes the socket.
INBOUND_RATE = 50
TOO_BIG, BROKEN, TRY_AGAIN = 1009, 1011, 1013
_MAX_BIGINT = 2**63 - 1


async def read(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a database query in a thread pool, so that sockets do not wait for each other."""
    call = database_sync_to_async(function, thread_sensitive=False)
    result: T = await call(*args, **kwargs)
    return result


#: Name of this process for `process_liveness`.
_PROCESS = f"{socket.gethostname()}:{os.getpid()}"
_open_sockets = 0


def report_sockets(number: int) -> None:
    """Report the number of open sockets for /metrics; errors of Redis are ignored."""
    try:
        process_liveness.report_count("sockets", _PROCESS, number)
    except (RedisError, OSError):
        logger.debug("the number of sockets was not reported")


def _count_open(change: int) -> bool:
    """Change the count of open sockets and report it in the background; returns True."""
    global _open_sockets
    _open_sockets += change
    asyncio.get_running_loop().run_in_executor(None, report_sockets, _open_sockets)
    return True


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Base of both consumers: authentication, the sending task, received messages."""

    group = ""
    person: int | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Like AsyncConsumer, but without Redis the socket opens too and only polls."""
        self.scope = scope
        self.base_send = send
        self.channel_layer = None
        sources = [receive]
        try:
            layer = get_channel_layer()
            async with asyncio.timeout(LAYER_SECONDS):
                self.channel_name = await layer.new_channel()
            self.channel_layer = layer
            sources.append(functools.partial(layer.receive, self.channel_name))
        except (RedisError, OSError, TimeoutError) as error:
            logger.warning("a socket opened without notifications, it only polls: %s", error)
        try:
            await await_many_dispatch(sources, self.dispatch)
        except StopConsumer:
            pass
        finally:
            await self._leave()

    # --- opening and closing --------------------------------------------------------------------

    async def connect(self) -> None:
        self.credentials = Credentials.of(self.scope)
        self.changed = asyncio.Event()
        self._heard: deque[float] = deque(maxlen=INBOUND_RATE)
        self._task: asyncio.Task[None] | None = None
        await self.accept()
        self._counted = _count_open(1)
        try:
            await self.begin()
        except Refusal as refusal:
            await self.close(code=refusal.code)
            return
        self._slot = acquire(self.credentials.owner(), most=connections_each())
        if self._slot is None:
            await self.close(code=TOO_MANY)
            return
        # Join before the first read, so that no change in between is missed.
        await self._join(self.group)
        try:
            await self._watch_notices()
        except Refusal as refusal:
            await self.close(code=refusal.code)
            return
        self._task = asyncio.create_task(self._serve())

    async def begin(self) -> None:
        """Check that the user may open this socket; raises Refusal."""
        raise Refusal(NOT_FOUND)

    async def advance(self, *, backstop: bool) -> None:
        """Send new events; `backstop`: no notification arrived for a while.  Raises Refusal."""

    async def _watch_notices(self) -> None:
        """Subscribe to the user's notices; the number of unread ones is sent first."""
        self.person = await read(user_id, self.credentials)
        await self._join(person_group(self.person))
        self._unread, self._unread_due = (0, 0), True

    async def _join(self, group: str) -> None:
        if self.channel_layer is None:
            return
        try:
            async with asyncio.timeout(LAYER_SECONDS):
                await self.channel_layer.group_add(group, self.channel_name)
        except (RedisError, OSError, TimeoutError) as error:
            logger.warning("a socket receives no notifications, it only polls: %s", error)

    async def _leave(self) -> None:
        if getattr(self, "_counted", False):
            self._counted = not _count_open(-1)
        slot = getattr(self, "_slot", None)
        if slot is not None:
            slot.release()
        task = getattr(self, "_task", None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self.channel_layer is None or not self.group:
            return
        try:
            async with asyncio.timeout(LAYER_SECONDS):
                await self.channel_layer.group_discard(self.group, self.channel_name)
                if self.person is not None:
                    await self.channel_layer.group_discard(
                        person_group(self.person), self.channel_name
                    )
        except (RedisError, OSError, TimeoutError) as error:
            logger.warning("a socket could not leave its group: %s", error)

    async def _serve(self) -> None:
        """Read and send until the socket closes."""
        backstop = False
        try:
            while True:
                self.changed.clear()
                await self.advance(backstop=backstop)
                await self._send_unread(backstop=backstop)
                backstop = not await self._wait()
        except Refusal as refusal:
            await self.close(code=refusal.code)
        except Exception:
            logger.exception("a socket failed")
            await self.close(code=BROKEN)

    async def _send_unread(self, *, backstop: bool) -> None:
        """Send the number of unread notices if it changed.  Raises Refusal."""
        if not (self._unread_due or backstop):
            return
        self._unread_due = False
        unread = await read(unread_state, self.credentials)
        if unread != self._unread:
            self._unread = unread
            await self.say(
                {"type": "notices", "unread": unread[0], "timestamp": int(time.time() * 1000)}
            )

    async def _wait(self) -> bool:
        """Wait for a notification (True) or until it is time to poll (False)."""
        try:
            async with asyncio.timeout(conf.backstop_seconds()):
                await self.changed.wait()
        except TimeoutError:
            _count_open(0)
            return False
        return True

    # --- received messages ----------------------------------------------------------------------

    async def execution_changed(self, message: ExecutionChanged) -> None:
        """Handle a message of the channel layer: the execution has new events."""
        self.changed.set()

    async def unread_changed(self, message: UnreadChanged) -> None:
        """Handle a message of the channel layer: the user's unread notices changed."""
        self._unread_due = True
        self.changed.set()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Handle `{"type": "ping"}` and `{"type": "replay", "after": n}`."""
        now = time.monotonic()
        if len(self._heard) == INBOUND_RATE and now - self._heard[0] < 10:
            await self.close(code=TOO_MANY)
            return
        self._heard.append(now)
        data = text_data if text_data is not None else bytes_data or b""
        if len(data) > INBOUND.max_bytes:
            await self.close(code=TOO_BIG)
            return
        try:
            message = parse(data, limits=INBOUND)
        except BoundedJSONError as error:
            await self.say({"type": "error", "message": str(error)})
            return
        await self._answer(message if isinstance(message, dict) else {})

    async def _answer(self, message: dict[str, Any]) -> None:
        match message.get("type"):
            case "ping":
                await self.say({"type": "pong"})
            case "replay" if _is_seq(message.get("after")):
                await self.replay(message["after"])
            case _:
                await self.say({"type": "error", "message": "send ping, or replay with after"})

    async def replay(self, after: int) -> None:
        """Send the events after seq `after` again."""
        self.changed.set()

    async def say(self, message: dict[str, Any]) -> None:
        await self.send(text_data=json.dumps(message, ensure_ascii=False))


def user_id(who: Credentials) -> int:
    """Return the id of the present user; raises Refusal."""
    return who.user().pk


def unread_state(who: Credentials) -> tuple[int, int]:
    """Return `inbox.unread_state` of the present user; raises Refusal."""
    return inbox.unread_state(who.user())


def _is_seq(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_BIGINT


def presence_event(message: HoldActivity) -> dict[str, Any]:
    """Return a wire event without a seq; the page reads the claim and the viewers itself."""
    return {
        "type": "review_presence",
        "executionId": str(message["execution_id"]),
        "holdId": message["hold_id"],
        "timestamp": int(time.time() * 1000),
    }


class ExecutionConsumer(LiveConsumer):
    """`/ws/executions/<id>/?after=SEQ`: all events of one execution after SEQ.

    It also sends `task_started`, without a seq, for tasks that take a while.
    """

    async def begin(self) -> None:
        self.execution_id = int(self.scope["url_route"]["kwargs"]["execution_id"])
        self.group = execution_group(self.execution_id)
        sent = parse_qs(self.scope.get("query_string", b"").decode("ascii", "replace"))
        self.seq = parse_natural_number(sent.get("after", ["0"])[-1]) or 0
        self._replay_after: int | None = None
        self._starts = StartedTasks()
        await read(queries.execution_events, self.credentials, self.execution_id, self.seq, 1)

    async def advance(self, *, backstop: bool) -> None:
        more = True
        while more:
            self._rewind()
            events = await read(
                queries.execution_events, self.credentials, self.execution_id, self.seq, BATCH
            )
            for event in events:
                await self.say(event)
                self.seq = event.get("seq", self.seq)
                self._starts.mark_delivered(event)
            more = len(events) >= BATCH
        for start in self._starts.take(self.execution_id):
            await self.say(start)

    async def execution_changed(self, message: ExecutionChanged) -> None:
        self._starts.receive(message)
        await super().execution_changed(message)

    async def hold_activity(self, message: HoldActivity) -> None:
        await self.say(presence_event(message))

    def _rewind(self) -> None:
        if self._replay_after is not None:
            self.seq, self._replay_after = min(self.seq, self._replay_after), None

    async def replay(self, after: int) -> None:
        self._replay_after = after
        self.changed.set()


class ReviewQueueConsumer(LiveConsumer):
    """`/ws/reviews/`: events that change the queue, of all executions that the user may see."""

    group = REVIEWS
    MAX_WAITING = 1000
    #: Maximum number of executions in one query.
    MAX_TOGETHER = 100
    MAX_REMEMBERED = 5000

    async def begin(self) -> None:
        self._changes: deque[ExecutionChanged] = deque()
        self._activity: OrderedDict[str, HoldActivity] = OrderedDict()
        self._seen: OrderedDict[int, int] = OrderedDict()
        await read(self.credentials.user)
        self._since = await read(queries.database_time)

    async def execution_changed(self, message: ExecutionChanged) -> None:
        if len(self._changes) >= self.MAX_WAITING:
            # The client is too slow: it has to reconnect and load the whole queue.
            await self.close(code=TRY_AGAIN)
            return
        self._changes.append(message)
        self.changed.set()

    async def hold_activity(self, message: HoldActivity) -> None:
        self._activity[message["hold_id"]] = message
        while len(self._activity) > self.MAX_WAITING:
            self._activity.popitem(last=False)
        self.changed.set()

    async def advance(self, *, backstop: bool) -> None:
        while self._activity:
            await self._send_activity()
        while self._changes:
            await self._send_changes()
        if backstop:
            await self._poll()

    async def _send_activity(self) -> None:
        """Send all waiting hold activity after one check of visibility."""
        waiting, self._activity = self._activity, OrderedDict()
        executions = {each["execution_id"] for each in waiting.values()}
        visible = await read(queries.visible_ids, self.credentials, executions)
        for each in waiting.values():
            if each["execution_id"] in visible:
                await self.say(presence_event(each))

    async def _send_changes(self) -> None:
        spans: dict[int, queries.Span] = {}
        while self._changes and len(spans) < self.MAX_TOGETHER:
            change = self._changes.popleft()
            execution_id = change["execution_id"]
            known = self._seen.get(execution_id)
            # Include earlier events whose notification was lost.
            first = change["first"] if known is None else min(change["first"], known + 1)
            before = spans.get(execution_id, (execution_id, first, change["last"]))
            spans[execution_id] = (
                execution_id, min(first, before[1]), max(change["last"], before[2])
            )  # fmt: skip
        found = await read(queries.queue_events, self.credentials, list(spans.values()))
        for (execution_id, _, last), events in zip(spans.values(), found, strict=True):
            await self._send_new(events, execution_id, last)

    async def _poll(self) -> None:
        """Send events since the last poll whose notifications were lost."""
        now, seen = await read(queries.database_time), dict(self._seen)
        for event in await read(queries.missed_queue_events, self.credentials, self._since, seen):
            await self._send_new([event], int(event["executionId"]), event["seq"])
        # Overlap by one interval: a commit may become visible after a later one.
        self._since = now - timedelta(seconds=conf.backstop_seconds())

    async def _send_new(self, events: list[dict[str, Any]], execution_id: int, last: int) -> None:
        known = self._seen.get(execution_id, 0)
        for event in events:
            if event["seq"] > known:
                await self.say(event)
        self._seen[execution_id] = max(known, last)
        self._seen.move_to_end(execution_id)
        while len(self._seen) > self.MAX_REMEMBERED:
            self._seen.popitem(last=False)
