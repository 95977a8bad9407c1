"""Who is at work, over the real Redis layer: on the socket and in the stream."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from django.test import AsyncClient

from tests.integration.reviews.conftest import MakeUser, echo
from tests.integration.reviews.test_sockets import bearer, in_thread, session, socket, take
from workflows.jobs import run_to_rest
from workflows.models import Execution
from workflows.planning import sync_python_tools
from workflows.services import start_execution

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)


def waiting(operator: User, seconds: float) -> Execution:
    """A run that nobody works on yet: a quick layer, then one with a slow task beside a quick."""
    sync_python_tools()
    slow = {
        "id": "slow",
        "type": "tool",
        "tool": "builtin.wait",
        "arguments": {"seconds": seconds},
        "depends_on": ["first"],
    }
    tasks = [echo("first"), slow, echo("quick", {"$from": "first"})]
    return start_execution(actor=operator, plan={"tasks": tasks})


def check(told: list[dict[str, Any]], execution: Execution) -> None:
    started = [event for event in told if event["type"] == "task_started"]
    assert [event["nodeId"] for event in started] == ["slow"]
    assert set(started[0]) == {"type", "executionId", "nodeId", "timestamp"}
    assert started[0]["executionId"] == str(execution.pk)
    ended = next(event for event in told if event.get("seq") and event.get("nodeId") == "slow")
    assert ended["type"] == "task_complete"
    assert told.index(started[0]) < told.index(ended)
    # The recorded ones are as contiguous as ever.
    seqs = [event["seq"] for event in told if "seq" in event]
    assert seqs == list(range(1, len(seqs) + 1))


async def test_a_socket_hears_who_is_at_work(operator: User) -> None:
    execution = await in_thread(waiting, operator, 0.4)
    header = await in_thread(session, operator)
    async with socket(f"/ws/executions/{execution.pk}/", header) as one:
        await one.send_to('{"type": "ping"}')
        assert await take(one, 1) == [{"type": "pong"}]
        work = asyncio.create_task(in_thread(run_to_rest, execution.pk))
        told = await take(one, 1)
        while told[-1]["type"] != "workflow_complete":
            told += await take(one, 1)
        await work
    check(told, execution)


async def test_a_stream_hears_it_without_an_id(operator: User) -> None:
    execution = await in_thread(waiting, operator, 0.4)
    name, value = await in_thread(bearer, operator)
    response: Any = await AsyncClient().get(
        f"/api/v1/executions/{execution.pk}/events/",
        headers={name.decode(): value.decode(), "Accept": "text/event-stream"},
    )
    found = aiter(response)
    assert (await anext(found)).startswith(b"retry")
    work = asyncio.create_task(in_thread(run_to_rest, execution.pk))
    blocks = [block.decode() async for block in found]
    await work
    told = [json.loads(block.split("data: ")[1]) for block in blocks if "data: " in block]
    check(told, execution)
    assert all(("id: " in block) == ('"seq"' in block) for block in blocks if "data: " in block)


async def test_the_queue_does_not_hear_of_it(operator: User, make_user: MakeUser) -> None:
    execution = await in_thread(waiting, operator, 0.2)
    header = await in_thread(session, operator)
    async with socket("/ws/reviews/", header) as queue:
        await queue.send_to('{"type": "ping"}')
        await take(queue, 1)
        await in_thread(run_to_rest, execution.pk)
        told = await take(queue, 2)
        assert [event["type"] for event in told] == ["workflow_start", "workflow_complete"]
