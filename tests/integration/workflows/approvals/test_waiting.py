"""Long polls, and requests that race with each other."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from channels.db import database_sync_to_async
from django.contrib.auth.models import User
from django.db import connection, connections
from django.test import AsyncClient
from django.utils import timezone

from reviews.decisions.conflicts import Conflict
from reviews.decisions.services import HoldNotFound
from reviews.models import HumanReviewRecord
from tests.integration.workflows.approvals.conftest import URL, Agent, decided, row_of
from workflows.approvals import waiting
from workflows.approvals.api import own_body
from workflows.models import ApiToken, Approval, Hold
from workflows.realtime.connection_limits import open_connections

pytestmark = pytest.mark.django_db(transaction=True)
SOON = 20  # less than a waiting request waits at most


@pytest.fixture
def polls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let waiting requests look at the version often; an entry for each time that one has."""
    seen: list[int] = []
    newer = waiting._newer

    def counted(client: Any, read: Any, body: dict[str, Any]) -> dict[str, Any] | None:
        found = newer(client, read, body)
        seen.append(body["version"])
        return found

    monkeypatch.setattr(waiting, "_POLL_SECONDS", 0.05)
    monkeypatch.setattr(waiting, "_newer", counted)
    return seen


async def polled(polls: list[int], times: int) -> None:
    async with asyncio.timeout(SOON):
        while len(polls) < times:
            await asyncio.sleep(0.01)


async def waited(agent: Agent, body: dict[str, Any], seconds: int = 30) -> Any:
    """What a client that waits reads in the end."""
    url = f"{URL}{body['id']}/?wait={seconds}"
    response = await AsyncClient().get(url, headers=agent.headers)
    assert response.status_code == 200
    if not response.streaming:
        return response.json()
    text = b"".join([chunk async for chunk in response])
    response.close()
    return json.loads(text)


async def test_the_answer_is_sent_when_it_is_there(
    agent: Agent, reviewer: User, polls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_POLL_SECONDS", 30.0)  # so that the notification wakes it
    body = await database_sync_to_async(agent.asked)()
    waiter = asyncio.create_task(waited(agent, body))
    await polled(polls, 1)
    assert not waiter.done()
    begun = time.monotonic()
    await database_sync_to_async(decided)(body, reviewer)
    answer = await asyncio.wait_for(waiter, SOON)
    assert answer["status"] == "approved"
    assert time.monotonic() - begun < SOON
    assert open_connections.total() == 0


async def test_a_wait_ends_with_the_status_as_it_is(agent: Agent) -> None:
    body = await database_sync_to_async(agent.asked)()
    assert (await asyncio.wait_for(waited(agent, body, 1), SOON))["status"] == "pending"


async def test_a_decided_approval_is_answered_at_once(agent: Agent, reviewer: User) -> None:
    body = await database_sync_to_async(agent.asked)()
    await database_sync_to_async(decided)(body, reviewer)
    assert (await asyncio.wait_for(waited(agent, body), 8))["status"] == "approved"


async def test_a_request_that_waits_keeps_no_database_connection(
    agent: Agent, polls: list[int]
) -> None:
    body = await database_sync_to_async(agent.asked)()
    async with ThreadSensitiveContext():  # as config.web.request_thread
        waiter = asyncio.create_task(waited(agent, body, 2))
        await polled(polls, 3)
        assert not waiter.done()
        assert await sync_to_async(lambda: connection.connection)() is None
        await waiter


async def test_an_approval_is_read_only_after_a_change(
    agent: Agent, reviewer: User, polls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []

    def counted(user: User, number: int) -> dict[str, Any] | None:
        reads.append(number)
        return own_body(user, number)

    body = await database_sync_to_async(agent.asked)()
    monkeypatch.setattr("workflows.approvals.api.own_body", counted)
    waiter = asyncio.create_task(waited(agent, body))
    await polled(polls, 5)
    assert len(reads) == 1  # to answer at once if it is decided
    await database_sync_to_async(decided)(body, reviewer)
    assert (await asyncio.wait_for(waiter, SOON))["status"] == "approved"


async def test_a_revoked_token_learns_nothing_more(
    agent: Agent, reviewer: User, polls: list[int]
) -> None:
    body = await database_sync_to_async(agent.asked)()
    waiter = asyncio.create_task(waited(agent, body))
    await polled(polls, 2)
    await ApiToken.objects.aupdate(revoked_at=timezone.now())
    await database_sync_to_async(decided)(body, reviewer)
    assert (await asyncio.wait_for(waiter, SOON))["status"] == "pending"


def together(*calls: Callable[[], Any]) -> list[Any]:
    """Run the calls in threads that start at the same moment; return results or exceptions."""
    barrier = threading.Barrier(len(calls))
    results: list[Any] = [None] * len(calls)

    def run(index: int, call: Callable[[], Any]) -> None:
        barrier.wait()
        try:
            results[index] = call()
        except Exception as error:
            results[index] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_two_requests_with_one_key_make_one_approval(agent: Agent) -> None:
    calls = [lambda: agent.ask(key="job-1")] * 4
    bodies = [response.json() for response in together(*calls)]
    assert len({body["id"] for body in bodies}) == 1
    assert Approval.objects.count() == 1


def test_either_the_cancellation_or_the_approval_wins(agent: Agent, reviewer: User) -> None:
    for _ in range(5):
        body = agent.asked()
        cancelled, approved = together(
            lambda body=body: agent.post(f"{body['id']}/cancel/", {}),
            lambda body=body: decided(body, reviewer),
        )
        status = agent.get(body["id"])["status"]
        records = HumanReviewRecord.objects.filter(execution_id=body["execution_id"]).count()
        if isinstance(approved, Exception):
            assert isinstance(approved, Conflict | HoldNotFound | Hold.DoesNotExist), approved
            assert (status, records) == ("cancelled", 0)
        else:
            assert records == 1
            # A cancellation that meets the worker is queued: its response says what is so far.
            if cancelled.status_code != 200:
                assert status == "approved"
            elif cancelled.json()["status"] == "cancelled":
                assert status == "cancelled"
        assert row_of(body).execution.status in ("COMPLETED", "ABORTED")
