"""Started tasks over the real Redis layer: on the socket and in the stream."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from channels.db import database_sync_to_async
from django.test import AsyncClient

from tests.integration.reviews.conftest import echo
from tests.integration.reviews.sockets.test_sockets import bearer, in_thread, session, socket, take
from tests.support.actors import actor_named
from tests.support.catalogue import stock_catalogue
from workflows.engine.protocol.commands import Abort
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import start_execution, submit_command
from workflows.models import Execution

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)


def waiting(operator: User) -> Execution:
    """A run that nobody works on yet: a quick layer, then one that does not end by itself."""
    stock_catalogue()
    slow = {
        "id": "slow",
        "type": "tool",
        "tool": "builtin.wait",
        "arguments": {"seconds": 600},
        "depends_on": ["first"],
    }
    tasks = [echo("first"), slow, echo("quick", {"$from": "first"})]
    return start_execution(actor=operator, plan={"tasks": tasks})


def at_work(execution: Execution) -> asyncio.Task[Execution]:
    """A worker in a thread of its own: consumers need the shared one while it is busy."""
    work = database_sync_to_async(run_to_rest, thread_sensitive=False)
    return asyncio.create_task(work(execution.pk))


def abort(execution: Execution) -> None:
    submit_command(
        execution_id=execution.pk, command=Abort(), actor=actor_named("ann"), source="test"
    )


def check(told: list[dict[str, Any]], execution: Execution) -> None:
    started = [event for event in told if event["type"] == "task_started"]
    assert [event["nodeId"] for event in started] == ["slow"]
    assert set(started[0]) == {"type", "executionId", "nodeId", "timestamp"}
    assert started[0]["executionId"] == str(execution.pk)
    # The recorded ones are as contiguous as ever.
    seqs = [event["seq"] for event in told if "seq" in event]
    assert seqs == list(range(1, len(seqs) + 1))
    assert told[-1]["type"] == "workflow_aborted"


async def test_a_socket_receives_started_tasks(operator: User) -> None:
    execution = await in_thread(waiting, operator)
    header = await in_thread(session, operator)
    async with socket(f"/ws/executions/{execution.pk}/", header) as one:
        await one.send_to('{"type": "ping"}')
        assert await take(one, 1) == [{"type": "pong"}]
        work = at_work(execution)
        told = await take(one, 1)
        while told[-1]["type"] != "workflow_aborted":
            if told[-1]["type"] == "task_started":
                await in_thread(abort, execution)
            told += await take(one, 1)
        await work
    check(told, execution)


async def test_a_stream_sends_started_tasks_without_an_id(operator: User) -> None:
    execution = await in_thread(waiting, operator)
    name, value = await in_thread(bearer, operator)
    response: Any = await AsyncClient().get(
        f"/api/v1/executions/{execution.pk}/events/",
        headers={name.decode(): value.decode(), "Accept": "text/event-stream"},
    )
    found = aiter(response)
    assert (await anext(found)).startswith(b"retry")
    work = at_work(execution)
    blocks = []
    async with asyncio.timeout(30):
        async for part in found:
            blocks += part.decode().removesuffix("\n\n").split("\n\n")
            if "task_started" in blocks[-1]:
                await in_thread(abort, execution)
    await work
    told = [json.loads(block.split("data: ")[1]) for block in blocks if "data: " in block]
    check(told, execution)
    assert all(("id: " in block) == ('"seq"' in block) for block in blocks if "data: " in block)


async def test_the_queue_socket_does_not_receive_started_tasks(operator: User) -> None:
    execution = await in_thread(waiting, operator)
    header = await in_thread(session, operator)
    path = f"/ws/executions/{execution.pk}/"
    async with socket("/ws/reviews/", header) as queue, socket(path, header) as one:
        for each in (queue, one):
            await each.send_to('{"type": "ping"}')
            await take(each, 1)
        work = at_work(execution)
        while (await take(one, 1))[0]["type"] != "task_started":
            pass
        await in_thread(abort, execution)
        await work
        told = await take(queue, 2)
        assert [event["type"] for event in told] == ["workflow_start", "workflow_aborted"]
