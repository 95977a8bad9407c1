"""Limits of one token, and the log of malformed commands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from django.test import override_settings
from mcp import Client

from tests.integration.workflows.mcp_server.conftest import VALIDATED, Call, Tokens, at_rest, chain
from tests.integration.workflows.mcp_server.web import refused
from workflows.api import throttling
from workflows.executions import services
from workflows.mcp_server.authentication import authenticate_caller
from workflows.mcp_server.middleware import GatewayMiddleware
from workflows.mcp_server.server import build_server
from workflows.models import CommandLog, Execution
from workflows.permissions.tokens import create_token

pytestmark = pytest.mark.django_db(transaction=True)

AT = 1_800_000_010.0


@pytest.fixture
def limits(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets limits; the clock that counts stands still."""

    def change(**numbers: int) -> None:
        monkeypatch.setattr(throttling.time, "time", lambda: AT)
        settings.HOLDPOINT = {**settings.HOLDPOINT, **numbers}

    return change


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def statuses(*tokens: str, **headers: str) -> list[httpx2.Response]:
    """The door's answers to one request after the other."""

    async def asked() -> list[httpx2.Response]:
        transport = httpx2.ASGITransport(app=GatewayMiddleware(hello))
        async with httpx2.AsyncClient(transport=transport, base_url="http://testserver") as client:
            return [
                await client.post(
                    "/mcp", json={}, headers={"Authorization": f"Bearer {token}", **headers}
                )
                for token in tokens
            ]

    return asyncio.run(asked())


def test_a_throttled_token_gets_retry_after(token: Tokens, limits: Callable[..., None]) -> None:
    limits(requests_per_minute=2)
    one, two = token("operator"), token("operator")
    answers = statuses(one, one, one, two)
    assert [each.status_code for each in answers] == [200, 200, 429, 200]
    assert answers[2].headers["retry-after"] == "50"


def test_starting_runs_has_its_own_limit(
    call: Call, people: Any, limits: Callable[..., None]
) -> None:
    limits(starts_per_minute=0, decisions_per_minute=1)
    assert not call("operator", "execute", plan=chain("a"), config={"wait_seconds": 0}).is_error
    limits(starts_per_minute=1)
    caller = authenticate_caller(token_of(people["operator"]))
    assert caller is not None

    async def twice() -> list[Any]:
        arguments = {"plan": chain("a"), "config": {"wait_seconds": 0}}
        async with Client(build_server(lambda ctx: caller)) as client:
            return [await client.call_tool("execute", arguments) for _ in range(2)]

    first, second = asyncio.run(twice())
    assert not first.is_error
    assert refused(second)["code"] == "throttled"
    assert Execution.objects.count() == 2


def token_of(user: Any) -> str:
    return create_token(user=user, name="t", scopes=["read", "run"])[1]


def test_the_waiting_calls_of_a_token_are_bounded(people: Any, limits: Callable[..., None]) -> None:
    limits(connections_each=1)
    slow = {"id": "s", "type": "tool", "tool": "testkit.slow", "arguments": {"seconds": 3}}
    execution = services.start_execution(actor=people["operator"], plan={"tasks": [slow]})
    caller = authenticate_caller(token_of(people["operator"]))
    assert caller is not None
    arguments = {"workflow_id": str(execution.pk), "wait_seconds": 1}

    async def both() -> list[Any]:
        async with Client(build_server(lambda ctx: caller)) as client:
            calls = [client.call_tool("get_execution", arguments) for _ in range(2)]
            found = list(await asyncio.gather(*calls))
            return [*found, await client.call_tool("get_execution", arguments)]

    results = asyncio.run(both())
    assert sorted(each.is_error for each in results[:2]) == [False, True]
    assert not results[2].is_error
    (late,) = [refused(each) for each in results if each.is_error]
    assert (late["code"], "1 calls waiting" in late["text"]) == ("throttled", True)


def test_a_malformed_command_is_logged_with_its_run(call: Call, people: Any) -> None:
    plan = chain("a", "b")
    execution = services.start_execution(actor=people["operator"], plan=plan, policy=VALIDATED)
    before = at_rest(execution)
    told = refused(call("operator", "replan", workflow_id=str(execution.pk), wish="more"))
    assert {each["path"] for each in told["errors"]} == {"new_requirement", "wish"}
    call("integrator", "replan", workflow_id=str(execution.pk))
    row = CommandLog.objects.get()
    assert (row.kind, row.actor, row.source, row.outcome) == (
        "replan",
        "operator",
        "mcp",
        "invalid",
    )
    execution.refresh_from_db()
    assert (execution.version, execution.status) == (before.version, "AWAITING_AGENT")


@override_settings(SECURE_SSL_REDIRECT=True, SECURE_PROXY_SSL_HEADER=None)
def test_tokens_are_sent_only_over_https(token: Tokens) -> None:
    (plain,) = statuses(token("operator"))
    assert plain.status_code == 403
    trusted = ("HTTP_X_FORWARDED_PROTO", "https")
    with override_settings(SECURE_PROXY_SSL_HEADER=trusted):
        assert statuses(token("operator"))[0].status_code == 403
        secure = {"X-Forwarded-Proto": "https"}
        assert statuses(token("operator"), **secure)[0].status_code == 200
