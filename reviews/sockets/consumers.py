"""WebSocket consumers: live events of one execution, and of the review queue.

Redis delivers ids of changes, once to each process; the events are read from PostgreSQL, for all
sockets that wait for them together, with the rights of that moment.  One task per socket sends, so
events are sent in order, once and without gaps, and a slow client delays no other.  Sockets accept
no decisions.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, cast
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.utils import await_many_dispatch
from django.db import InterfaceError, OperationalError
from redis.exceptions import RedisError

from workflows.common.number_parsing import parse_natural_number
from workflows.conf import connections_each
from workflows.engine.values.bounded_json import BoundedJSONError, Limits, parse
from workflows.metrics import process_liveness
from workflows.realtime.batched_reads import ReadFailed, seconds_to_poll
from workflows.realtime.connection_limits import acquire
from workflows.realtime.event_serialization import SharedEvent
from workflows.realtime.execution_reads import Position, new_events
from workflows.realtime.shared_groups import listening
from workflows.realtime.task_started import StartedTasks

from . import queries
from .authentication import NOT_FOUND, TOO_MANY, UNAUTHENTICATED, Credentials, Refusal
from .group_messages import (
    NOTICES,
    REVIEWS,
    ExecutionChanged,
    HoldActivity,
    execution_group,
)

#: Interval at which a socket reads the journal without a notification.
BACKSTOP_SECONDS = 20.0

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

BATCH = 200
INBOUND = Limits(max_bytes=4096, depth=4)
#: Maximum number of received messages in ten seconds; one more closes the socket.
INBOUND_RATE = 50
#: Codes for applications: daphne refuses to send 1009, 1011 and 1013.
TOO_BIG, BROKEN, TRY_AGAIN = 4413, 4500, 4503
_MAX_BIGINT = 2**63 - 1


async def read(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a database query in a thread pool, so that sockets do not wait for each other.

    Raises ReadFailed if the database cannot be read.
    """
    call = database_sync_to_async(function, thread_sensitive=False)
    try:
        result: T = await call(*args, **kwargs)
    except (OperationalError, InterfaceError) as error:
        logger.warning("a socket could not be read: %s", error)
        raise ReadFailed from error
    return result


#: Name of this process for `process_liveness`.
_PROCESS = f"{socket.gethostname()}:{os.getpid()}"
_open_sockets = 0
#: Whether the number of open sockets will be reported: one report for all that change together.
_report_is_due = False


def report_sockets() -> None:
    """Report the number of open sockets for /metrics; errors of Redis are ignored."""
    global _report_is_due
    _report_is_due = False
    try:
        process_liveness.report_count("sockets", _PROCESS, _open_sockets)
    except (RedisError, OSError):
        logger.debug("the number of sockets was not reported")


def _count_open(change: int) -> bool:
    """Change the count of open sockets and report it in the background; returns True."""
    global _open_sockets, _report_is_due
    _open_sockets += change
    if not _report_is_due:
        _report_is_due = True
        asyncio.get_running_loop().run_in_executor(None, report_sockets)
    return True


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Base of both consumers: authentication, the sending task, received messages."""

    #: The group of the channel layer whose messages the socket gets, beside the notices.
    group = ""
    MAX_WAITING = 1000

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Like AsyncConsumer, without a channel of its own: the sockets of a process share one."""
        self.scope = scope
        self.base_send = send
        self.channel_layer = None
        self._listening = AsyncExitStack()
        try:
            await await_many_dispatch([receive], self.dispatch)
        except StopConsumer:
            pass
        finally:
            await self._leave()

    # --- opening and closing --------------------------------------------------------------------

    async def connect(self) -> None:
        self.changed = asyncio.Event()
        self._activity: OrderedDict[str, HoldActivity] = OrderedDict()
        self._heard: deque[float] = deque(maxlen=INBOUND_RATE)
        self._task: asyncio.Task[None] | None = None
        await self.accept()
        self._counted = _count_open(1)
        credentials = Credentials.of(self.scope)
        try:
            self.client = await read(credentials.client)
            await self.begin()
        except Refusal as refusal:
            await self.close(code=refusal.code)
            return
        except ReadFailed:
            await self.close(code=BROKEN)
            return
        self._slot = acquire(credentials.owner(), most=connections_each())
        if self._slot is None:
            await self.close(code=TOO_MANY)
            return
        # The number of unread notices is sent first.
        self._unread, self._unread_due = (0, 0), True
        self._poll_is_due = False
        self._poll_later()
        # Join before the first read, so that no change in between is missed.
        await self._listening.enter_async_context(listening(self.group, self.hear))
        await self._listening.enter_async_context(listening(NOTICES, self.hear))
        self._task = asyncio.create_task(self._serve())

    async def begin(self) -> None:
        """Check that the user may open this socket; raises Refusal."""
        raise Refusal(NOT_FOUND)

    def asked_number(self, name: str) -> int:
        """Return a number of the query string; 0 if it is missing or no natural number."""
        sent = parse_qs(self.scope.get("query_string", b"").decode("ascii", "replace"))
        return parse_natural_number(sent.get(name, ["0"])[-1]) or 0

    async def advance(self, *, backstop: bool) -> None:
        """Send new events; `backstop`: it is time to poll.  Raises Refusal."""

    async def _leave(self) -> None:
        if getattr(self, "_counted", False):
            self._counted = not _count_open(-1)
        slot = getattr(self, "_slot", None)
        if slot is not None:
            slot.release()
        timer = getattr(self, "_timer", None)
        if timer is not None:
            timer.cancel()
        task = getattr(self, "_task", None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._listening.aclose()

    async def _serve(self) -> None:
        """Read and send until the socket closes."""
        backstop = False
        try:
            while True:
                self.changed.clear()
                await self.advance(backstop=backstop)
                await self._send_unread(backstop=backstop)
                backstop = await self._wait()
        except Refusal as refusal:
            await self.close(code=refusal.code)
        except ReadFailed:
            await self.close(code=BROKEN)
        except Exception:
            logger.exception("a socket failed")
            await self.close(code=BROKEN)

    async def _send_unread(self, *, backstop: bool) -> None:
        """Send the number of unread notices if it changed.  Raises Refusal."""
        if not (self._unread_due or backstop):
            return
        self._unread_due = False
        unread = await queries.unread_state(self.client)
        if unread != self._unread:
            self._unread = unread
            await self.say(
                {"type": "notices", "unread": unread[0], "timestamp": int(time.time() * 1000)}
            )

    async def _wait(self) -> bool:
        """Wait for a notification or the next poll; whether it is time to poll."""
        await self.changed.wait()
        if not self._poll_is_due:
            return False
        self._poll_is_due = False
        _count_open(0)
        return True

    def _poll_later(self) -> None:
        """Set a timer for the next poll: one for all waits until then."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(_next_poll(), self._poll_now)

    def _poll_now(self) -> None:
        self._poll_is_due = True
        self.changed.set()
        self._poll_later()

    # --- messages of the channel layer ----------------------------------------------------------

    def hear(self, message: Mapping[str, Any]) -> None:
        """Note a message of a group; the sending task handles it."""
        match message["type"]:
            case "execution.changed":
                self.execution_changed(cast("ExecutionChanged", message))
            case "hold.activity" if not self._is_own_page(message):
                self.hold_activity(cast("HoldActivity", message))
            case "unread.changed" if self.client.user_id in message["user_ids"]:
                self._unread_due = True
            case _:
                return
        self.changed.set()

    def _is_own_page(self, message: Mapping[str, Any]) -> bool:
        """Whether the client is a page of the viewer: it shows other viewers only."""
        is_page = self.client.token_id is None
        # A process of the last release does not say who it was.
        return is_page and message.get("viewer_id") == self.client.user_id

    def execution_changed(self, message: ExecutionChanged) -> None:
        """Note that an execution has new events."""

    def hold_activity(self, message: HoldActivity) -> None:
        """Note that the claim or the viewers of a hold changed."""
        self._activity[message["hold_id"]] = message
        while len(self._activity) > self.MAX_WAITING:
            self._activity.popitem(last=False)

    def take_activity(self) -> list[HoldActivity]:
        waiting, self._activity = self._activity, OrderedDict()
        return list(waiting.values())

    # --- received messages ----------------------------------------------------------------------

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

    async def say_event(self, event: SharedEvent) -> None:
        await self.send(text_data=event.text)

    async def say(self, message: Mapping[str, Any]) -> None:
        await self.send(text_data=json.dumps(message, ensure_ascii=False))


def _next_poll() -> float:
    """Return when to poll next, in the loop's time: all sockets of a process poll together."""
    return asyncio.get_running_loop().time() + seconds_to_poll(BACKSTOP_SECONDS)


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
        if self.execution_id > _MAX_BIGINT:
            raise Refusal(NOT_FOUND)
        self.group = execution_group(self.execution_id)
        self.seq = self.asked_number("after")
        self._replay_after: int | None = None
        self._starts = StartedTasks()
        await self._read(1)

    async def advance(self, *, backstop: bool) -> None:
        more, activity = True, self.take_activity()
        while more:
            self._rewind()
            events = await self._read(BATCH)
            for event in events:
                await self.say_event(event)
                self.seq = event.get("seq", self.seq)
                self._starts.mark_delivered(event)
            more = len(events) >= BATCH
        for each in activity:
            await self.say(presence_event(each))
        for start in self._starts.take(self.execution_id):
            await self.say(start)

    async def _read(self, limit: int) -> Sequence[SharedEvent]:
        """Return the next events; raises Refusal if the execution is not visible."""
        found = await new_events(Position(self.client, self.execution_id, self.seq, limit))
        if not found.is_visible:
            raise Refusal(NOT_FOUND if found.is_authenticated else UNAUTHENTICATED)
        return found.events

    def execution_changed(self, message: ExecutionChanged) -> None:
        self._starts.receive(message)

    def _rewind(self) -> None:
        if self._replay_after is not None:
            self.seq, self._replay_after = min(self.seq, self._replay_after), None

    async def replay(self, after: int) -> None:
        self._replay_after = after
        self.changed.set()


class ReviewQueueConsumer(LiveConsumer):
    """`/ws/reviews/?age=MS`: events that change the queue, of all executions the user may see.

    `age` is the age of the rows that the client shows: events since then are sent first.
    """

    group = REVIEWS
    #: Older rows have to be loaded again.
    MAX_AGE_MS = 60_000
    #: Maximum number of executions in one query.
    MAX_TOGETHER = 100
    MAX_REMEMBERED = 5000

    async def begin(self) -> None:
        self._changes: deque[ExecutionChanged] = deque(maxlen=self.MAX_WAITING + 1)
        #: First and last seq that the client knows of each execution, without a gap between them.
        self._seen: OrderedDict[int, tuple[int, int]] = OrderedDict()
        age = min(self.asked_number("age"), self.MAX_AGE_MS)
        self._catches_up = age > 0
        now = await read(queries.database_time)
        self._opened = self._since = now - timedelta(milliseconds=age)

    def execution_changed(self, message: ExecutionChanged) -> None:
        self._changes.append(message)

    async def advance(self, *, backstop: bool) -> None:
        while activity := self.take_activity():
            await self._send_activity(activity)
        while self._changes:
            await self._send_changes()
        if backstop or self._catches_up:
            self._catches_up = False
            await self._poll()

    async def _send_activity(self, activity: Sequence[HoldActivity]) -> None:
        """Send hold activity after one check of visibility."""
        executions = frozenset(each["execution_id"] for each in activity)
        visible = await queries.visible_ids(queries.Activity(self.client, executions))
        for each in activity:
            if each["execution_id"] in visible:
                await self.say(presence_event(each))

    async def _send_changes(self) -> None:
        if len(self._changes) > self.MAX_WAITING:
            # The client is too slow: it has to reconnect and load the whole queue.
            raise Refusal(TRY_AGAIN)
        spans: dict[int, queries.Span] = {}
        while self._changes and len(spans) < self.MAX_TOGETHER:
            change = self._changes.popleft()
            execution_id = change["execution_id"]
            first, last = change["first"], change["last"]
            if known := self._seen.get(execution_id):
                # Include the events between, whose notification was lost or comes later.
                first, last = min(first, known[1] + 1), max(last, known[0] - 1)
            before = spans.get(execution_id, (execution_id, first, last))
            spans[execution_id] = (execution_id, min(first, before[1]), max(last, before[2]))
        found = await queries.queue_events(queries.QueueNews(self.client, list(spans.values())))
        for (execution_id, first, last), events in zip(spans.values(), found, strict=True):
            known = self._seen.get(execution_id, (1, 0))
            await self._send([each for each in events if not known[0] <= each["seq"] <= known[1]])
            self._remember(execution_id, first, last)

    async def _poll(self) -> None:
        """Send events since the last poll whose notifications were lost."""
        missed = await queries.missed_queue_events(
            queries.Poll(self.client, self._since, self._seen)
        )
        await self._send(missed.events)
        for event in missed.events:
            self._remember(int(event["executionId"]), event["seq"], event["seq"])
        # Overlap by one interval: a commit may become visible after a later one.  The first poll
        # may come right after the socket opened, and the client shows what is older.
        overlap = timedelta(seconds=BACKSTOP_SECONDS)
        self._since = max(self._opened, missed.at - overlap)

    async def _send(self, events: Sequence[SharedEvent]) -> None:
        for event in events:
            await self.say_event(event)

    def _remember(self, execution_id: int, first: int, last: int) -> None:
        known = self._seen.get(execution_id, (first, last))
        self._seen[execution_id] = (min(known[0], first), max(known[1], last))
        self._seen.move_to_end(execution_id)
        while len(self._seen) > self.MAX_REMEMBERED:
            self._seen.popitem(last=False)
