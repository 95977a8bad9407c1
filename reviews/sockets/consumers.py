"""The sockets: news as it happens, read from PostgreSQL, asked for by ids that came over Redis.

Each socket has one task that reads and sends, so its events come in order, once, and without a
gap, and a slow client holds up nobody else.  No decision goes over a socket.
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
from .messages import REVIEWS, Moved, Rang, Touched, execution_group, person_group
from .queries import TOO_MANY, Credentials, Refusal

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds that Redis may take when a socket joins or leaves.
LAYER_SECONDS = 3.0
BATCH = 200
INBOUND = Limits(max_bytes=4096, depth=4)
#: More messages than this within ten seconds end the socket; so does one socket too many.
INBOUND_RATE = 50
TOO_BIG, BROKEN, TRY_AGAIN = 1009, 1011, 1013
_LARGEST = 2**63 - 1


async def read(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a database read in a thread of its own, so that sockets do not wait for each other."""
    call = database_sync_to_async(function, thread_sensitive=False)
    result: T = await call(*args, **kwargs)
    return result


#: As Redis knows this process.
_PROCESS = f"{socket.gethostname()}:{os.getpid()}"
_open_sockets = 0


def report_sockets(number: int) -> None:
    """Without Redis nobody asks either."""
    try:
        process_liveness.report_count("sockets", _PROCESS, number)
    except (RedisError, OSError):
        logger.debug("the number of sockets was not told")


def _count_open(change: int) -> bool:
    """Sockets of this process, told to Redis for /metrics; True, and it never waits."""
    global _open_sockets
    _open_sockets += change
    asyncio.get_running_loop().run_in_executor(None, report_sockets, _open_sockets)
    return True


class NewsConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """What both sockets have in common: who is there, the reading task, and what comes in."""

    group = ""
    person: int | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """As AsyncConsumer's, but a socket opens without Redis too and lives on its backstop."""
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
            logger.warning("a socket opened without live news: %s", error)
        try:
            await await_many_dispatch(sources, self.dispatch)
        except StopConsumer:
            pass
        finally:
            await self._leave()

    # --- opening and closing --------------------------------------------------------------------

    async def connect(self) -> None:
        self.credentials = Credentials.of(self.scope)
        self.news = asyncio.Event()
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
        # Joined before the first read: what happens in between is in the journal or in the news.
        await self._join(self.group)
        try:
            await self._hang_bell()
        except Refusal as refusal:
            await self.close(code=refusal.code)
            return
        self._task = asyncio.create_task(self._serve())

    async def begin(self) -> None:
        """Check that this socket may be opened; raises Refusal."""
        raise Refusal(queries.NOT_FOUND)

    async def advance(self, *, backstop: bool) -> None:
        """Send what is new; `backstop` when no news came for a while.  Raises Refusal."""

    async def _hang_bell(self) -> None:
        """Listen for the person's own notices, then say what is unread now, if anything is."""
        self.person = await read(person_of, self.credentials)
        await self._join(person_group(self.person))
        self._bell, self._rung = (0, 0), True

    async def _join(self, group: str) -> None:
        if self.channel_layer is None:
            return
        try:
            async with asyncio.timeout(LAYER_SECONDS):
                await self.channel_layer.group_add(group, self.channel_name)
        except (RedisError, OSError, TimeoutError) as error:
            logger.warning("a socket lives without live news: %s", error)

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
                self.news.clear()
                await self.advance(backstop=backstop)
                await self._ring(backstop=backstop)
                backstop = not await self._wait()
        except Refusal as refusal:
            await self.close(code=refusal.code)
        except Exception:
            logger.exception("a socket failed")
            await self.close(code=BROKEN)

    async def _ring(self, *, backstop: bool) -> None:
        """Say how many notices are unread, if that changed.  Raises Refusal."""
        if not (self._rung or backstop):
            return
        self._rung = False
        bell = await read(bell_of, self.credentials)
        if bell != self._bell:
            self._bell = bell
            await self.say(
                {"type": "notices", "unread": bell[0], "timestamp": int(time.time() * 1000)}
            )

    async def _wait(self) -> bool:
        """Until there is news (True) or the backstop's time has come."""
        try:
            async with asyncio.timeout(conf.backstop_seconds()):
                await self.news.wait()
        except TimeoutError:
            _count_open(0)
            return False
        return True

    # --- what comes in --------------------------------------------------------------------------

    async def execution_moved(self, message: Moved) -> None:
        """News over the channel layer."""
        self.news.set()

    async def person_rang(self, message: Rang) -> None:
        """Something changed among the notices of whoever opened this socket."""
        self._rung = True
        self.news.set()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """`{"type": "ping"}` and `{"type": "replay", "after": n}`; nothing that decides."""
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
        """Send what came after `after` again."""
        self.news.set()

    async def say(self, message: dict[str, Any]) -> None:
        await self.send(text_data=json.dumps(message, ensure_ascii=False))


def person_of(who: Credentials) -> int:
    """Id of whoever this is now; raises Refusal."""
    return who.user().pk


def bell_of(who: Credentials) -> tuple[int, int]:
    """How their notices stand now; raises Refusal."""
    return inbox.unread_state(who.user())


def _is_seq(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


def presence_event(message: Touched) -> dict[str, Any]:
    """A light push without a seq: who claims or looks is read by the page itself."""
    return {
        "type": "review_presence",
        "executionId": str(message["execution_id"]),
        "holdId": message["hold_id"],
        "timestamp": int(time.time() * 1000),
    }


class ExecutionConsumer(NewsConsumer):
    """`/ws/executions/<id>/?after=SEQ`: every event of one execution after SEQ.

    In between it says which tasks run, as `task_started` without a seq.
    """

    async def begin(self) -> None:
        self.execution_id = int(self.scope["url_route"]["kwargs"]["execution_id"])
        self.group = execution_group(self.execution_id)
        sent = parse_qs(self.scope.get("query_string", b"").decode("ascii", "replace"))
        self.seq = parse_natural_number(sent.get("after", ["0"])[-1]) or 0
        self._again: int | None = None
        self._starts = StartedTasks()
        await read(queries.execution_events, self.credentials, self.execution_id, self.seq, 1)

    async def advance(self, *, backstop: bool) -> None:
        more = True
        while more:
            self._step_back()
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

    async def execution_moved(self, message: Moved) -> None:
        self._starts.receive(message)
        await super().execution_moved(message)

    async def hold_touched(self, message: Touched) -> None:
        await self.say(presence_event(message))

    def _step_back(self) -> None:
        if self._again is not None:
            self.seq, self._again = min(self.seq, self._again), None

    async def replay(self, after: int) -> None:
        self._again = after
        self.news.set()


class ReviewQueueConsumer(NewsConsumer):
    """`/ws/reviews/`: what changes the queue, of every execution the user may see."""

    group = REVIEWS
    WAITING = 1000
    #: Runs whose news is read at once.
    TOGETHER = 100
    REMEMBERED = 5000

    async def begin(self) -> None:
        self._moves: deque[Moved] = deque()
        self._touched: OrderedDict[str, Touched] = OrderedDict()
        self._seen: OrderedDict[int, int] = OrderedDict()
        await read(self.credentials.user)
        self._since = await read(queries.database_time)

    async def execution_moved(self, message: Moved) -> None:
        if len(self._moves) >= self.WAITING:
            # Too slow to follow: the client opens anew and looks at the whole queue.
            await self.close(code=TRY_AGAIN)
            return
        self._moves.append(message)
        self.news.set()

    async def hold_touched(self, message: Touched) -> None:
        self._touched[message["hold_id"]] = message
        while len(self._touched) > self.WAITING:
            self._touched.popitem(last=False)
        self.news.set()

    async def advance(self, *, backstop: bool) -> None:
        while self._touched:
            await self._tell_touched()
        while self._moves:
            await self._tell_moves()
        if backstop:
            await self._look()

    async def _tell_touched(self) -> None:
        """Everything that waits is looked at together: a burst costs little more than one piece."""
        waiting, self._touched = self._touched, OrderedDict()
        executions = {touched["execution_id"] for touched in waiting.values()}
        seen = await read(queries.seen_of, self.credentials, executions)
        for touched in waiting.values():
            if touched["execution_id"] in seen:
                await self.say(presence_event(touched))

    async def _tell_moves(self) -> None:
        spans: dict[int, queries.Span] = {}
        while self._moves and len(spans) < self.TOGETHER:
            move = self._moves.popleft()
            execution_id = move["execution_id"]
            known = self._seen.get(execution_id)
            # Earlier news of this run that never came is made up for.
            first = move["first"] if known is None else min(move["first"], known + 1)
            before = spans.get(execution_id, (execution_id, first, move["last"]))
            spans[execution_id] = (
                execution_id, min(first, before[1]), max(move["last"], before[2])
            )  # fmt: skip
        told = await read(queries.queue_events, self.credentials, list(spans.values()))
        for (execution_id, _, last), events in zip(spans.values(), told, strict=True):
            await self._tell(events, execution_id, last)

    async def _look(self) -> None:
        """What was lost on the way since the last look."""
        now, seen = await read(queries.database_time), dict(self._seen)
        for event in await read(queries.missed_queue_events, self.credentials, self._since, seen):
            await self._tell([event], int(event["executionId"]), event["seq"])
        # One round is looked at twice: a commit may become visible after a later one.
        self._since = now - timedelta(seconds=conf.backstop_seconds())

    async def _tell(self, events: list[dict[str, Any]], execution_id: int, last: int) -> None:
        known = self._seen.get(execution_id, 0)
        for event in events:
            if event["seq"] > known:
                await self.say(event)
        self._seen[execution_id] = max(known, last)
        self._seen.move_to_end(execution_id)
        while len(self._seen) > self.REMEMBERED:
            self._seen.popitem(last=False)
