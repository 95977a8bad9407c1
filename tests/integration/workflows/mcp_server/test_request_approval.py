"""Agents that ask over MCP whether they may take an action of their own."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from tests.integration.workflows.approvals.conftest import decided, hold_of
from tests.integration.workflows.mcp_server.conftest import Agents, Call
from tests.integration.workflows.mcp_server.web import Web, refused
from tests.support.processes import wait_for
from workflows.mcp_server.threads import in_thread
from workflows.models import ApiToken, Approval, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

PAY = {"to": "ACME", "amount": 250}
ASKED: dict[str, Any] = {
    "action": {"name": "payments.transfer", "arguments": PAY},
    "idempotency_key": "invoice-4711",
}


def asked(call: Call, **fields: Any) -> dict[str, Any]:
    result = call("integrator", "request_approval", scopes=("ask",), **{**ASKED, **fields})
    assert not result.is_error, result.content
    return dict(result.structured_content)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_waiting_call_returns_the_edited_arguments(
    agent: Agents, people: dict[str, User], mode: str
) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    def decide() -> None:
        wait_for(lambda: heard, what="the agent hears of the wait")
        body = {"execution_id": Approval.objects.get().execution_id}
        decided(body, people["reviewer"], edits={"amount": 100}, comment="Half of it.")

    one = agent("integrator", "ask", mode=mode)

    async def waiting() -> Any:
        arguments = {**ASKED, "wait_seconds": 50}
        call = asyncio.create_task(one.acall("request_approval", arguments, hear))
        await in_thread(decide)
        return await asyncio.wait_for(call, 30)

    start = time.monotonic()
    answer = asyncio.run(waiting()).structured_content
    assert time.monotonic() - start < 25
    assert (answer["status"], answer["edited"]) == ("approved", True)
    assert answer["arguments"] == {"to": "ACME", "amount": 100}
    assert (answer["decided_by"], answer["comment"]) == ("reviewer", "Half of it.")
    numbers = [progress for progress, _, _ in heard]
    assert numbers
    assert numbers == sorted(set(numbers))
    assert {total for _, total, _ in heard} == {50.0}
    assert answer["review_url"] in str(heard[0][2])


def test_an_equal_key_continues_the_approval_after_a_restart(
    web: Web, agent: Agents, people: dict[str, User]
) -> None:
    one = agent("integrator", "ask")
    first = one.answer("request_approval", **ASKED, wait_seconds=0)
    assert (first["status"], first["arguments"]) == ("pending", None)
    assert "Do not execute" in first["message"]
    web.killed_and_started()
    again = one.answer("request_approval", **ASKED, wait_seconds=0.2)
    assert (again["id"], Approval.objects.count()) == (first["id"], 1)
    decided(first, people["reviewer"])
    last = one.answer("request_approval", **ASKED)
    assert (last["id"], last["status"], last["arguments"]) == (first["id"], "approved", PAY)


def test_rest_and_mcp_share_an_approval_of_the_same_token(
    web: Web, agent: Agents, people: dict[str, User]
) -> None:
    one = agent("integrator", "ask")
    first = one.answer("request_approval", **ASKED, wait_seconds=0)
    response = httpx2.post(
        web.url.replace("/mcp", "/api/v1/approvals/"),
        json={"action": ASKED["action"]},
        headers={
            "Authorization": f"Bearer {one.token}",
            "Idempotency-Key": ASKED["idempotency_key"],
        },
        timeout=60,
    )
    assert (response.status_code, response.json()["id"]) == (201, first["id"])


def test_a_key_with_other_fields_is_refused(agent: Agents) -> None:
    one = agent("integrator", "ask")
    one.answer("request_approval", **ASKED, wait_seconds=0)
    told = one.refused("request_approval", **{**ASKED, "risk": "low"}, wait_seconds=0)
    assert told["code"] == "idempotency_mismatch"
    assert Approval.objects.count() == 1


def test_the_answers_of_a_person(agent: Agents, people: dict[str, User]) -> None:
    one = agent("integrator", "ask")
    for decision, status in (("REJECT", "rejected"), ("REQUEST_CHANGES", "changes_requested")):
        fields = {**ASKED, "idempotency_key": decision}
        first = one.answer("request_approval", **fields, wait_seconds=0)
        decided(first, people["reviewer"], decision, comment="No.")
        last = one.answer("request_approval", **fields)
        found = (last["status"], last["comment"], last["arguments"])
        assert found == (status, "No.", None), decision
        assert "Do not execute" in last["message"]


def test_a_revoked_token_ends_the_wait(agent: Agents) -> None:
    one = agent("integrator", "ask")

    def revoke() -> None:
        wait_for(lambda: Approval.objects.exists())
        ApiToken.objects.update(revoked_at="2020-01-01T00:00:00Z")

    async def waiting() -> Any:
        call = asyncio.create_task(one.acall("request_approval", {**ASKED, "wait_seconds": 50}))
        await in_thread(revoke)
        return await asyncio.wait_for(call, 20)

    assert refused(asyncio.run(waiting()))["code"] == "unauthenticated"


def test_two_calls_at_once_ask_once(agent: Agents) -> None:
    one = agent("integrator", "ask")

    async def both() -> list[Any]:
        fields = {**ASKED, "wait_seconds": 0}
        calls = [one.acall("request_approval", fields) for _ in range(4)]
        return list(await asyncio.gather(*calls))

    ids = {each.structured_content["id"] for each in asyncio.run(both())}
    assert (len(ids), Approval.objects.count()) == (1, 1)


def test_a_token_limited_to_workflows_asks_nothing(people: dict[str, User], agent: Agents) -> None:
    one = agent("integrator", "ask")
    ApiToken.objects.update(only_workflows=[])
    told = one.refused("request_approval", **ASKED, wait_seconds=0)
    assert (told["code"], Approval.objects.count()) == ("forbidden", 0)


def test_the_asker_does_not_decide(call: Call, people: dict[str, User]) -> None:
    first = asked(call, wait_seconds=0)
    told = refused(
        call(
            "integrator",
            "approval_response",
            scopes=("read", "decide"),
            workflow_id=first["execution_id"],
            approved=True,
        )
    )
    assert told["code"] == "forbidden"
    assert hold_of(first).status == Hold.Status.OPEN
