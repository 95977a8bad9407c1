"""Server-sent events: replay, news, resume, heartbeat, rights, and an end."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from channels_redis.pubsub import RedisPubSubLoopLayer
from django.contrib.auth.models import User
from django.test import AsyncClient
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.integration.workflows.api.conftest import plain_plan, reviewed_plan
from tests.support.actors import actor_named
from tests.support.catalogue import stock_catalogue
from tests.support.groups import group_of
from tests.support.starters import change_starter
from workflows.api import stream
from workflows.executions import services
from workflows.executions.jobs import run_to_rest
from workflows.models import ApiToken, Execution
from workflows.permissions import tokens
from workflows.realtime.clients import LiveClient
from workflows.realtime.connection_limits import open_connections

pytestmark = pytest.mark.django_db(transaction=True)
SOON = 10


@pytest.fixture
def operator(transactional_db: None) -> User:
    user = User.objects.create_user("operator")
    user.groups.add(group_of("operator"))
    stock_catalogue()
    return user


@pytest.fixture
def paused(operator: User) -> Execution:
    execution = services.start_execution(actor=operator, plan=reviewed_plan())
    return run_to_rest(execution.pk)


@pytest.fixture
def finished(operator: User) -> Execution:
    execution = services.start_execution(actor=operator, plan=plain_plan(2))
    return run_to_rest(execution.pk)


@pytest.fixture
def headers(operator: User) -> dict[str, str]:
    _, text = tokens.create_token(user=operator, name="t", scopes=["read"])
    # As browsers ask: an event must not wait in a compressor.
    return {
        "Authorization": f"Bearer {text}", "Accept": "text/event-stream",
        "Accept-Encoding": "gzip",
    }  # fmt: skip


async def opened(execution: Execution, headers: dict[str, str], query: str = "") -> Any:
    url = f"/api/v1/executions/{execution.pk}/events/{query}"
    return await AsyncClient().get(url, headers=headers)


async def blocks(response: Any) -> AsyncIterator[dict[str, str]]:
    """The stream's blocks as field → value; a comment is under "" ."""
    async for chunk in response:
        for block in chunk.decode().split("\n\n"):
            if block:
                yield dict(line.split(": ", 1) for line in block.split("\n"))


async def take(stream_of: AsyncIterator[dict[str, str]], count: int) -> list[dict[str, str]]:
    return [await asyncio.wait_for(anext(stream_of), SOON) for _ in range(count)]


async def rest(stream_of: AsyncIterator[dict[str, str]]) -> list[dict[str, str]]:
    async def everything() -> list[dict[str, str]]:
        return [block async for block in stream_of]

    return await asyncio.wait_for(everything(), SOON)


def seqs(found: list[dict[str, str]]) -> list[int]:
    return [int(block["id"]) for block in found if "id" in block]


def abort(execution: Execution) -> int:
    command = services.parse_command({"kind": "abort"})
    result = services.submit_command(
        execution_id=execution.pk, command=command, actor=actor_named("operator"), source="rest"
    )
    return result.version


async def tell(execution: Execution) -> None:
    news = {"type": "execution.changed", "execution_id": str(execution.pk)}
    await get_channel_layer().group_send(f"execution.{execution.pk}", news)


async def test_a_finished_run_is_replayed_and_the_stream_ends(finished, headers) -> None:
    response = await opened(finished, headers)
    assert response.status_code == 200
    assert response["Content-Type"] == "text/event-stream"
    assert response["Cache-Control"] == "no-store"
    found = await rest(blocks(response))
    assert found[0] == {"retry": "2000"}
    assert seqs(found) == list(range(1, finished.version + 1))
    last = found[-1]
    assert last["event"] == "workflow_complete"
    data = json.loads(last["data"])
    assert (data["seq"], data["executionId"]) == (finished.version, str(finished.pk))


async def test_events_are_sent_at_once_and_the_end_closes_the_stream(paused, headers) -> None:
    found = blocks(await opened(paused, headers))
    replayed = await take(found, 1 + paused.version + 1)
    assert seqs(replayed) == list(range(1, paused.version + 1))
    assert replayed[-1]["event"] == "workflow_paused"
    version = await database_sync_to_async(abort)(paused)
    await tell(paused)
    told = await rest(found)
    assert seqs(told) == list(range(paused.version + 1, version + 1))
    assert told[-1]["event"] == "workflow_aborted"


async def test_the_events_of_one_read_are_one_part(finished, headers) -> None:
    parts = [part.decode() async for part in await opened(finished, headers)]
    assert [part.count("\nid: ") + part.startswith("id: ") for part in parts] == [
        0, finished.version,
    ]  # fmt: skip


async def test_a_reconnecting_client_gets_the_rest_once(paused, headers) -> None:
    first = blocks(await opened(paused, headers))
    seen = seqs(await take(first, 3))
    await first.aclose()
    version = await database_sync_to_async(abort)(paused)
    again = {**headers, "Last-Event-ID": str(seen[-1])}
    seen += seqs(await rest(blocks(await opened(paused, again, "?after=0"))))
    assert seen == list(range(1, version + 1))


async def test_a_finished_stream_is_204(finished, headers) -> None:
    response = await opened(finished, headers, f"?after={finished.version}")
    assert response.status_code == 204


async def test_an_idle_stream_sends_heartbeats_and_finds_missed_events(
    paused, headers, monkeypatch
) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.05)
    found = blocks(await opened(paused, headers, f"?after={paused.version}"))
    assert await take(found, 2) == [{"retry": "2000"}, {"": "still here"}]
    version = await database_sync_to_async(abort)(paused)
    told = await rest(found)
    assert seqs(told) == list(range(paused.version + 1, version + 1))


async def test_more_events_than_a_batch_come_in_order(finished, headers, monkeypatch) -> None:
    monkeypatch.setattr(stream, "_BATCH", 2)
    found = await rest(blocks(await opened(finished, headers)))
    assert seqs(found) == list(range(1, finished.version + 1))


def revoke() -> None:
    tokens.revoke(tokens=ApiToken.objects.all())


def narrow() -> None:
    ApiToken.objects.update(scopes=["run"])


def switch_off() -> None:
    User.objects.update(is_active=False)


@pytest.mark.parametrize("lose", [revoke, narrow, switch_off])
async def test_lost_rights_end_the_stream(paused, headers, lose) -> None:
    found = blocks(await opened(paused, headers, f"?after={paused.version}"))
    await take(found, 1)
    await database_sync_to_async(lose)()
    await database_sync_to_async(abort)(paused)
    await tell(paused)
    assert await rest(found) == [{"event": "access_ended", "data": "{}"}]


async def test_events_of_invisible_runs_are_not_sent(paused, headers) -> None:
    found = blocks(await opened(paused, headers, f"?after={paused.version}"))
    await take(found, 1)
    other = await database_sync_to_async(User.objects.create_user)("other")
    await database_sync_to_async(hand_over)(paused, other)
    await tell(paused)
    assert await rest(found) == [{"event": "access_ended", "data": "{}"}]


def hand_over(execution: Execution, other: User) -> None:
    """The operator's role is gone and the run belongs to somebody else."""
    User.objects.get(username="operator").groups.clear()
    change_starter(execution, other)


async def test_logging_out_ends_the_stream(paused, operator) -> None:
    client = AsyncClient()
    await client.aforce_login(operator)
    url = f"/api/v1/executions/{paused.pk}/events/?after={paused.version}"
    found = blocks(await client.get(url, headers={"Accept": "text/event-stream"}))
    await take(found, 1)
    await client.alogout()
    await tell(paused)
    assert await rest(found) == [{"event": "access_ended", "data": "{}"}]


async def test_two_streams_receive_the_same_events(paused, headers) -> None:
    query = f"?after={paused.version}"
    found = [blocks(await opened(paused, headers, query)) for _ in range(2)]
    for each in found:
        await take(each, 1)
    await database_sync_to_async(abort)(paused)
    await tell(paused)
    first, second = [await rest(each) for each in found]
    assert first == second
    assert first[-1]["event"] == "workflow_aborted"


async def test_a_refused_stream_is_a_problem_document(paused, headers) -> None:
    response = await AsyncClient().get("/api/v1/executions/999999999/events/", headers=headers)
    assert response.status_code == 404
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["code"] == "not_found"
    anonymous = await opened(paused, {"Accept": "text/event-stream"})
    assert anonymous.status_code == 401


async def test_a_disconnected_client_leaves_no_subscription(paused, operator) -> None:
    layer = get_channel_layer()
    before = set(layer.channels)
    client = LiveClient(user_id=operator.pk)
    following = stream.follow(paused.pk, after=0, client=client)
    await anext(following)
    assert len(layer.channels) == len(before) + 1
    await following.aclose()
    assert set(layer.channels) == before


async def test_without_redis_the_heartbeat_finds_new_events(
    paused, operator, monkeypatch, caplog
) -> None:
    async def away(*args: object) -> None:
        raise RedisConnectionError("connection refused")

    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(RedisPubSubLoopLayer, "new_channel", away)
    client = LiveClient(user_id=operator.pk)
    following = stream.follow(paused.pk, after=paused.version, client=client)
    assert await anext(following) == b"retry: 2000\n\n"
    assert "no notifications" in caplog.text
    await database_sync_to_async(abort)(paused)
    found = [chunk async for chunk in following]
    assert b"event: workflow_aborted" in found[-1]


async def test_one_stream_too_many_is_429_and_a_closed_one_makes_room(
    paused, finished, headers, settings
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "connections_each": 2}
    query = f"?after={paused.version}"
    first, second = [await opened(paused, headers, query) for _ in range(2)]
    refused = await opened(paused, headers, query)
    assert (refused.status_code, refused["Retry-After"]) == (429, "5")
    assert refused.json()["code"] == "throttled"
    # What the server does with a response when its client is gone, read from or not.
    before = open_connections.total()
    await database_sync_to_async(first.close)()
    assert open_connections.total() == before - 1
    assert seqs(await rest(blocks(await opened(finished, headers))))[-1] == finished.version
    assert open_connections.total() == before - 1
    await database_sync_to_async(second.close)()
    assert open_connections.total() == before - 2
