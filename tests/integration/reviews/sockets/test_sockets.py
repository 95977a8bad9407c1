"""The sockets over the real Redis layer: every event once, in order, without a gap."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings as django_settings

from config.asgi import application
from reviews.decisions import services
from reviews.sockets import broadcasts
from reviews.sockets.consumers import ReviewQueueConsumer
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold
from tests.support.pages import browser
from workflows.executions.jobs import run_to_rest
from workflows.models import Execution
from workflows.permissions.tokens import create_token
from workflows.realtime.event_serialization import wire_events

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

ORIGIN = (b"origin", b"http://testserver")
BEFORE = "BEFORE_EXECUTION"


def bearer(user: User, *scopes: str) -> tuple[bytes, bytes]:
    _, text = create_token(user=user, name="socket", scopes=scopes or ("read",))
    return b"authorization", f"Bearer {text}".encode()


def session(user: User) -> tuple[bytes, bytes]:
    client = browser(user)
    name = django_settings.SESSION_COOKIE_NAME
    return b"cookie", f"{name}={client.cookies[name].value}".encode()


class Socket(WebsocketCommunicator):
    """As channels' own, but database connections are closed as they are in production."""

    async def send_input(self, message: Any) -> None:
        await ApplicationCommunicator.send_input(self, message)

    async def receive_output(self, timeout: float = 1) -> Any:
        return await ApplicationCommunicator.receive_output(self, timeout)


@asynccontextmanager
async def socket(path: str, *headers: tuple[bytes, bytes]) -> AsyncIterator[WebsocketCommunicator]:
    communicator = Socket(application, path, headers=[ORIGIN, *headers])
    connected, _ = await communicator.connect(timeout=10)
    assert connected
    try:
        yield communicator
    finally:
        await communicator.disconnect(timeout=10)


async def joined(communicator: WebsocketCommunicator) -> None:
    """Until the socket hears pushes: it is accepted a little before it joins its group."""
    await communicator.send_to(text_data='{"type": "ping"}')
    while json.loads(await communicator.receive_from(timeout=10))["type"] != "pong":
        pass


async def take(communicator: WebsocketCommunicator, number: int) -> list[dict[str, Any]]:
    """The next messages, without events that the one behind them repeats."""
    found: list[dict[str, Any]] = []
    while len(found) < number:
        message = json.loads(await communicator.receive_from(timeout=10))
        if not repeats(message):
            found.append(message)
    return found


def repeats(event: dict[str, Any]) -> bool:
    return event["type"] == "decision_required" and "seq" not in event


async def close_code(communicator: WebsocketCommunicator) -> int:
    while True:
        message = await communicator.receive_output(timeout=10)
        if message["type"] == "websocket.close":
            return int(message["code"])


async def in_thread(function: Any, *args: Any, **kwargs: Any) -> Any:
    return await database_sync_to_async(function)(*args, **kwargs)


def approve(execution: Execution, user: User) -> None:
    hold = only_hold(execution)
    execution.refresh_from_db()
    decide(hold, user)


def events_of(execution: Execution, after: int = 0) -> list[dict[str, Any]]:
    return [event for event in wire_events(execution.pk, after=after) if not repeats(event)]


async def test_replay_and_live_events_arrive_once(start: Start, reviewer: User) -> None:
    execution = await in_thread(start, echo("a", phase=BEFORE), echo("b"), echo("c", phase=BEFORE))
    header = await in_thread(session, reviewer)
    async with socket(f"/ws/executions/{execution.pk}/", header) as one:
        told = await take(one, execution.version)
        assert told == await in_thread(events_of, execution)
        paused = [event for event in told if event["type"] == "workflow_paused"]
        assert {event["nodeId"] for event in paused} == {"a", "c"}
        assert paused[0]["executionId"] == str(execution.pk)
        assert paused[0]["triggerPhase"] == BEFORE
        for hold in await in_thread(lambda: list(execution.holds.all())):
            await in_thread(decide_hold, hold.id, execution, reviewer)
        await in_thread(run_to_rest, execution.pk)
        rest = await in_thread(events_of, execution, told[-1]["seq"])
        assert rest[-1]["type"] == "workflow_complete"
        assert "workflow_resumed" in [event["type"] for event in rest]
        assert await take(one, len(rest)) == rest
        assert await one.receive_nothing(timeout=0.3)


def decide_hold(hold_id: str, execution: Execution, user: User) -> None:
    execution.refresh_from_db()
    services.decide(
        services.DecisionRequest(
            hold_id=hold_id, user=user, decision="APPROVE", version=execution.version, source="test"
        )
    )


async def test_a_reconnecting_client_misses_nothing(start: Start, reviewer: User) -> None:
    execution = await in_thread(start, echo("a", phase=BEFORE), echo("b", {"$from": "a"}))
    header = await in_thread(bearer, reviewer)
    path = f"/ws/executions/{execution.pk}/"
    async with socket(path, header) as first:
        told = await take(first, execution.version)
    await in_thread(approve, execution, reviewer)
    async with socket(f"{path}?after={told[-1]['seq']}", header) as second:
        await in_thread(run_to_rest, execution.pk)
        everything = await in_thread(events_of, execution)
        told += await take(second, len(everything) - len(told))
        assert told == everything
        assert [event["seq"] for event in told] == list(range(1, len(told) + 1))


async def test_a_client_may_request_events_again(start: Start, reviewer: User) -> None:
    execution = await in_thread(start, echo("a", phase=BEFORE))
    header = await in_thread(session, reviewer)
    async with socket(f"/ws/executions/{execution.pk}/", header) as one:
        told = await take(one, execution.version)
        await one.send_to(json.dumps({"type": "replay", "after": told[0]["seq"]}))
        assert await take(one, len(told) - 1) == told[1:]


async def test_lost_notifications_are_made_up_for(
    start: Start, reviewer: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reviews.sockets.consumers.BACKSTOP_SECONDS", 0.3)
    execution = await in_thread(start, echo("a", phase=BEFORE))
    header = await in_thread(session, reviewer)
    async with (
        socket(f"/ws/executions/{execution.pk}/", header) as one,
        socket("/ws/reviews/", header) as queue,
    ):
        await take(one, execution.version)
        await queue.send_to('{"type": "ping"}')
        assert await take(queue, 1) == [{"type": "pong"}]
        monkeypatch.setattr(broadcasts._outbox, "put", lambda *args: None)
        await in_thread(approve, execution, reviewer)
        assert (await take(one, 1))[0]["type"] == "workflow_resumed"
        assert (await take(queue, 1))[0]["type"] == "workflow_resumed"


async def test_a_lost_notification_before_one_that_arrives_is_made_up_for(
    start: Start, reviewer: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when Redis fails over while a run pauses: the socket first hears of a later event."""
    monkeypatch.setattr("reviews.sockets.consumers.BACKSTOP_SECONDS", 1.5)
    header = await in_thread(session, reviewer)
    async with socket("/ws/reviews/", header) as queue:
        await ponged(queue)
        with monkeypatch.context() as lost:
            lost.setattr(broadcasts._outbox, "put", lambda *args: None)
            execution = await in_thread(start, echo("a", phase=BEFORE))
        await in_thread(approve, execution, reviewer)
        told = await take(queue, 3)
        wanted = {"workflow_start", "workflow_paused", "workflow_resumed"}
        everything = [e for e in await in_thread(events_of, execution) if e["type"] in wanted]
        assert sorted(told, key=lambda event: event["seq"]) == everything
        assert await queue.receive_nothing(timeout=2)


async def test_the_queue_socket_reports_pauses_and_resumes(
    start: Start, reviewer: User, make_user: MakeUser
) -> None:
    mine = await in_thread(session, reviewer)
    other = await in_thread(session, await in_thread(make_user, "stranger", "other"))
    async with socket("/ws/reviews/", mine) as queue, socket("/ws/reviews/", other) as blind:
        for each in (queue, blind):
            await each.send_to('{"type": "ping"}')
            await take(each, 1)
        execution = await in_thread(start, echo("a", phase=BEFORE))
        await in_thread(approve, execution, reviewer)
        await in_thread(run_to_rest, execution.pk)
        wanted = {"workflow_start", "workflow_paused", "workflow_resumed", "workflow_complete"}
        told = await take(queue, len(wanted))
        everything = await in_thread(events_of, execution)
        assert told == [event for event in everything if event["type"] in wanted]
        assert set(told[1]) >= {"type", "executionId", "nodeId", "triggerPhase", "timestamp"}
        assert await blind.receive_nothing(timeout=0.3)


async def test_the_queue_socket_first_sends_what_is_newer_than_the_page(
    start: Start, reviewer: User
) -> None:
    header = await in_thread(session, reviewer)
    execution = await in_thread(start, echo("a", phase=BEFORE))
    paused = await in_thread(queue_events_of, execution)
    async with socket("/ws/reviews/?age=60000", header) as queue:
        assert await take(queue, len(paused)) == paused
    for query in ("", "?age=0", "?age=-1", "?age=much"):
        async with socket(f"/ws/reviews/{query}", header) as queue:
            await ponged(queue)
            assert await queue.receive_nothing(timeout=0.3)


async def test_the_age_of_the_page_has_a_maximum(
    start: Start, reviewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = await in_thread(session, reviewer)
    await in_thread(start, echo("a", phase=BEFORE))
    monkeypatch.setattr(ReviewQueueConsumer, "MAX_AGE_MS", 1)
    async with socket("/ws/reviews/?age=999999999999", header) as queue:
        await ponged(queue)
        assert await queue.receive_nothing(timeout=0.3)


def queue_events_of(execution: Execution) -> list[dict[str, Any]]:
    wanted = {"workflow_start", "workflow_paused"}
    return [event for event in events_of(execution) if event["type"] in wanted]


async def test_a_slow_client_delays_no_other(start: Start, reviewer: User) -> None:
    execution = await in_thread(start, echo("a", phase=BEFORE))
    header = await in_thread(session, reviewer)
    path = f"/ws/executions/{execution.pk}/"
    async with socket(path, header) as slow, socket(path, header) as quick:
        await take(quick, execution.version)
        await in_thread(approve, execution, reviewer)
        assert (await take(quick, 1))[0]["type"] == "workflow_resumed"
        told = await take(slow, execution.version + 1)
        assert [event["seq"] for event in told] == list(range(1, len(told) + 1))


# --- rights ---------------------------------------------------------------------------------------


async def test_unauthorized_clients_are_refused(
    start: Start, reviewer: User, make_user: MakeUser
) -> None:
    execution = await in_thread(start, echo("a", phase=BEFORE))
    path = f"/ws/executions/{execution.pk}/"
    stranger = await in_thread(make_user, "stranger", "other")
    cases = [
        ((), 4401),
        ([(b"authorization", b"Bearer hp_wrong")], 4401),
        ([await in_thread(bearer, reviewer, "run")], 4403),
        ([await in_thread(session, stranger)], 4404),
    ]
    for headers, code in cases:
        async with socket(path, *headers) as refused:
            assert await close_code(refused) == code
    too_large = f"/ws/executions/{2**63}/"
    async with socket(too_large, await in_thread(session, reviewer)) as refused:
        assert await close_code(refused) == 4404


async def test_rights_are_checked_for_each_message(start: Start, reviewer: User) -> None:
    execution = await in_thread(start, echo("a", phase=BEFORE))
    header = await in_thread(session, reviewer)
    async with socket(f"/ws/executions/{execution.pk}/", header) as one:
        await take(one, execution.version)
        await in_thread(reviewer.groups.clear)
        await one.send_to(json.dumps({"type": "replay", "after": 0}))
        assert await close_code(one) == 4404


async def test_deactivating_an_account_closes_its_socket(
    start: Start, reviewer: User, monkeypatch: Any
) -> None:
    monkeypatch.setattr("reviews.sockets.consumers.BACKSTOP_SECONDS", 0.3)
    header = await in_thread(session, reviewer)
    async with socket("/ws/reviews/", header) as queue:
        reviewer.is_active = False
        await in_thread(reviewer.save)
        assert await close_code(queue) == 4401


async def test_a_foreign_origin_is_refused(reviewer: User) -> None:
    header = await in_thread(session, reviewer)
    evil = (b"origin", b"http://testserver:8001")
    communicator = Socket(application, "/ws/reviews/", headers=[evil, header])
    connected, _ = await communicator.connect(timeout=10)
    assert not connected


# --- what comes in --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[" * 3000,
        '{"type": "replay", "after": -1}',
        '{"type": "replay", "after": 1e400}',
        '{"type": "replay", "after": true}',
        r'{"type": "\u0000"}',
        '{"type": "approve", "hold": "1-1"}',
        "[1]",
    ],
)
async def test_invalid_messages_are_answered_with_an_error(reviewer: User, text: str) -> None:
    header = await in_thread(session, reviewer)
    async with socket("/ws/reviews/", header) as queue:
        await queue.send_to(text)
        assert (await take(queue, 1))[0]["type"] == "error"
        await queue.send_to('{"type": "ping"}')
        assert await take(queue, 1) == [{"type": "pong"}]


async def test_oversized_and_frequent_messages_close_the_socket(reviewer: User) -> None:
    header = await in_thread(session, reviewer)
    async with socket("/ws/reviews/", header) as queue:
        await queue.send_to("x" * 5000)
        assert await close_code(queue) == 4413
    async with socket("/ws/reviews/", header) as queue:
        for _ in range(60):
            await queue.send_to('{"type": "ping"}')
        assert await close_code(queue) == 4429


async def test_without_redis_a_socket_still_delivers_events(
    start: Start, reviewer: User, settings, monkeypatch: Any
) -> None:
    monkeypatch.setattr("reviews.sockets.consumers.BACKSTOP_SECONDS", 0.3)
    settings.CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": ["unix:///nowhere/redis.sock"]},
        }
    }
    execution = await in_thread(start, echo("a", phase=BEFORE))
    header = await in_thread(session, reviewer)
    async with socket(f"/ws/executions/{execution.pk}/", header) as one:
        await take(one, execution.version)
        await in_thread(approve, execution, reviewer)
        async with asyncio.timeout(5):
            assert (await take(one, 1))[0]["type"] == "workflow_resumed"


async def test_one_socket_too_many_is_closed_with_4429(
    start: Start, reviewer: User, settings: Any
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "connections_each": 1}
    header = await in_thread(bearer, reviewer)
    async with socket("/ws/reviews/", header) as first:
        await ponged(first)  # it has its place now
        async with socket("/ws/reviews/", header) as second:
            assert await close_code(second) == 4429
        await ponged(first)
    async with socket("/ws/reviews/", header) as again:
        await ponged(again)


async def ponged(one: WebsocketCommunicator) -> None:
    await one.send_to(text_data=json.dumps({"type": "ping"}))
    assert json.loads(await one.receive_from(timeout=10)) == {"type": "pong"}
