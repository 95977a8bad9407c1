"""Servers that ask for input during a call: people answer."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.urls import reverse
from django.utils import timezone
from mcp.shared.exceptions import MCPError

from reviews.decisions.edits import ReviewInvalid
from reviews.models import HumanReviewRecord
from tests.integration.workflows.mcp_gate.conftest import (
    Agent,
    Upstream,
    decided,
    in_background,
    meanwhile,
    new_token,
    open_hold,
    policy,
    text_of,
)
from tests.integration.workflows.mcp_server.web import Agent as WebAgent
from tests.integration.workflows.mcp_server.web import Web
from tests.support.catalogue import stock_catalogue
from tests.support.processes import wait_for
from tests.support.tool_servers import copied
from workflows import conf
from workflows.approvals import services
from workflows.mcp_gate import sweeper_hooks
from workflows.mcp_server.threads import in_thread
from workflows.models import ApiToken, Approval, ApprovalPolicy, Gate, GateCall, Hold, McpServer
from workflows.permissions.tokens import revoke
from workflows.tools import catalogue_sync
from workflows.tools.mcp_client import close_pool

pytestmark = pytest.mark.django_db(transaction=True)

HERE = Path(__file__).parent


def new_gate(script: str, journal: Path) -> Gate:
    stock_catalogue()
    journal.touch()
    program = copied(HERE / script, journal.parent / "program")
    server = McpServer.objects.create(
        name="asks",
        command=sys.executable,
        args=[program],
        env={"JOURNAL": str(journal)},
        read_paths=[program],
        write_paths=[str(journal)],
    )
    assert catalogue_sync.sync_server(server).error == ""
    found = Gate.objects.create(name="ops")
    found.servers.add(server)
    for tool in ("deploy", "insist", "open_page", "confuse"):
        policy(found, f"asks.{tool}", "allow")
    return found


@pytest.fixture
def gate(transactional_db: None, upstream: Upstream) -> Iterator[Gate]:
    """The gate `ops` with a server of protocol 2026-07-28 that asks; its tools are allowed."""
    yield new_gate("asking.py", upstream.path)
    close_pool()


@pytest.fixture
def old_gate(transactional_db: None, upstream: Upstream) -> Iterator[Gate]:
    """The same with a server of protocol 2025-06-18."""
    yield new_gate("asking_2025.py", upstream.path)
    close_pool()


def test_people_answer_the_server(agent: Agent, upstream: Upstream, reviewer: User) -> None:
    heard: list[Any] = []

    async def progress(value: float, total: float | None, message: str | None) -> None:
        heard.append((value, message))

    deciding = meanwhile(lambda: decided(reviewer, edits={"branch": "main"}))
    result = agent.call("asks__deploy", progress)
    deciding.join()
    assert text_of(result) == "accept {'branch': 'main', 'loud': True}"
    assert upstream.calls == [
        {"tool": "deploy", "action": "accept", "chosen": {"branch": "main", "loud": True}}
    ]
    call, approval = GateCall.objects.get(), Approval.objects.get()
    assert (call.policy, call.outcome) == ("allow", "answered")
    assert (approval.action, approval.title, approval.risk, approval.session) == (
        "asks.deploy.elicitation", "asks asks during deploy", "high", call.session,
    )  # fmt: skip
    hold = Hold.objects.get()
    assert hold.payload == {"loud": True}
    assert hold.expires_at is not None
    assert "the server asks people: http" in heard[0][1]


def test_the_message_is_shown_as_text(agent: Agent, reviewer: User, client: Any) -> None:
    pages: list[str] = []

    def read_and_reject() -> None:
        hold = wait_for(open_hold, what="a hold")
        client.force_login(reviewer)
        url = reverse("reviews:decision", args=[hold.execution_id, hold.pk])
        pages.append(client.get(url).text)
        decided(reviewer, "REJECT", comment="no")

    deciding = meanwhile(read_and_reject)
    result = agent.call("asks__deploy")
    deciding.join()
    assert text_of(result) == "decline None"
    assert "Which &lt;b&gt;branch&lt;/b&gt;?" in pages[0]
    assert "<b>branch</b>" not in pages[0]
    assert "The server gets these values as its answer." in pages[0]
    assert "The agent runs it" not in pages[0]


def test_a_question_is_not_approved_without_the_answer(
    agent: Agent, upstream: Upstream, reviewer: User
) -> None:
    errors: list[str] = []

    def decide_twice() -> None:
        wait_for(open_hold, what="a hold")
        with pytest.raises(ReviewInvalid) as invalid:
            decided(reviewer)
        errors.extend(each.path for each in invalid.value.errors)
        decided(reviewer, edits={"branch": "main", "loud": False})

    deciding = meanwhile(decide_twice)
    agent.call("asks__deploy")
    deciding.join()
    assert errors == ["edits.branch"]
    assert upstream.calls[0]["chosen"] == {"branch": "main", "loud": False}


def test_a_held_call_asks_too(gate: Gate, agent: Agent, upstream: Upstream, reviewer: User) -> None:
    policy(gate, "asks.deploy", "hold")

    def decide_both() -> None:
        decided(reviewer)
        decided(reviewer, edits={"branch": "main"})

    deciding = meanwhile(decide_both)
    result = agent.call("asks__deploy")
    deciding.join()
    assert text_of(result) == "accept {'branch': 'main', 'loud': True}"
    assert len(upstream.calls) == 1
    call = GateCall.objects.get()
    assert (call.policy, call.outcome) == ("hold", "answered")


def test_nobody_answers_in_time(
    agent: Agent, upstream: Upstream, waits: Callable[..., None]
) -> None:
    waits(20, gate_call_seconds=8)
    assert text_of(agent.call("asks__deploy")) == "cancel None"
    assert not Hold.objects.filter(status=Hold.Status.OPEN).exists()
    assert GateCall.objects.get().outcome == "answered"


def test_a_revoked_token_ends_the_question(agent: Agent, gate: Gate) -> None:
    def revoke_it() -> None:
        wait_for(open_hold, what="a hold")
        revoke(tokens=ApiToken.objects.all())

    revoking = meanwhile(revoke_it)
    with pytest.raises(MCPError, match="People could not be asked"):
        agent.call("asks__deploy")
    revoking.join()
    assert not Hold.objects.filter(status=Hold.Status.OPEN).exists()


def test_only_the_gate_ends_a_question(agent: Agent, reviewer: User) -> None:
    refused: list[str] = []

    def cancel_and_decide() -> None:
        wait_for(open_hold, what="a hold")
        approval = Approval.objects.get()
        with pytest.raises(PermissionDenied) as error:
            services.cancel(approval=approval, actor=approval.owner, reason="no")
        refused.append(str(error.value))
        decided(reviewer, edits={"branch": "main"})

    deciding = meanwhile(cancel_and_decide)
    result = agent.call("asks__deploy")
    deciding.join()
    assert "Only the gate" in refused[0]
    assert text_of(result).startswith("accept")


def test_at_most_five_questions(agent: Agent, upstream: Upstream, reviewer: User) -> None:
    deciding = meanwhile(lambda: [decided(reviewer) for _ in range(5)])
    with pytest.raises(MCPError, match="at most 5 times"):
        agent.call("asks__insist")
    deciding.join()
    assert Approval.objects.count() == 5
    assert GateCall.objects.get().outcome == "error"


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("confuse", {}, "cannot answer"),
        ("open_page", {"url": "javascript:alert(1)"}, "https://"),
        ("open_page", {"url": "https://example.com/" + "x" * 2000}, "https://"),
    ],
)
def test_what_people_cannot_answer_is_refused(
    agent: Agent, tool: str, arguments: dict[str, str], reason: str
) -> None:
    with pytest.raises(MCPError, match=reason):
        agent.call(f"asks__{tool}", **arguments)
    assert not Hold.objects.exists()
    assert reason in GateCall.objects.get().error


@pytest.mark.parametrize(("decision", "action"), [("APPROVE", "accept"), ("REJECT", "decline")])
def test_people_open_an_address_of_the_server(
    agent: Agent, reviewer: User, client: Any, decision: str, action: str
) -> None:
    pages: list[str] = []

    def read_and_decide() -> None:
        hold = wait_for(open_hold, what="a hold")
        client.force_login(reviewer)
        url = reverse("reviews:decision", args=[hold.execution_id, hold.pk])
        pages.append(client.get(url).text)
        decided(reviewer, decision, comment="seen")

    deciding = meanwhile(read_and_decide)
    answer = json.loads(text_of(agent.call("asks__open_page")))
    deciding.join()
    assert answer == {"action": action}
    assert 'href="https://example.com/sign-in?to=asks"' in pages[0]
    assert "The server learns that you open the address." in pages[0]
    assert (Approval.objects.get().risk, HumanReviewRecord.objects.count()) == ("high", 1)


def test_the_policy_of_the_question_applies(agent: Agent, reviewer: User) -> None:
    ApprovalPolicy.objects.create(
        pattern="asks.deploy.elicitation", groups=["reviewer"], skip_when="`true`",
        timeout_seconds=1, on_timeout="keep_waiting",
    )  # fmt: skip
    deciding = meanwhile(lambda: decided(reviewer, "REJECT", comment="no"))
    assert text_of(agent.call("asks__deploy")) == "decline None"
    deciding.join()
    assert Approval.objects.get().policy == "asks.deploy.elicitation"


def test_a_server_of_an_older_protocol_asks(old_gate: Gate, reviewer: User) -> None:
    agent = Agent(new_token())
    deciding = meanwhile(lambda: decided(reviewer, edits={"branch": "main"}))
    answer = json.loads(text_of(agent.call("asks__deploy")))
    deciding.join()
    assert answer == {"action": "accept", "content": {"branch": "main"}}
    deciding = meanwhile(lambda: decided(reviewer, "REJECT", comment="no"))
    answer = json.loads(text_of(agent.call("asks__deploy")))
    deciding.join()
    assert answer == {"action": "decline"}


def test_a_request_that_may_be_of_either_call_is_refused(old_gate: Gate, reviewer: User) -> None:
    agent = Agent(new_token())

    async def inside() -> list[str]:
        async with agent.connect() as client:
            first = asyncio.create_task(client.call_tool("asks__deploy", {}))
            while not await in_thread(open_hold):
                await asyncio.sleep(0.1)
            second = await client.call_tool("asks__deploy", {"n": 2})
            deciding = meanwhile(lambda: decided(reviewer, edits={"branch": "main"}))
            texts = [text_of(await first), text_of(second)]
            deciding.join()
            return texts

    first, second = asyncio.run(inside())
    assert json.loads(first)["action"] == "accept"
    assert "while one call is under way" in second


def test_killed_while_people_answer_a_server(
    web: Web, web_agent: WebAgent, upstream: Upstream, reviewer: User
) -> None:
    ends_at = timezone.now() + timedelta(seconds=conf.gate_call_seconds())
    web.start()
    waiting = in_background(lambda: web_agent.call("asks__deploy"))
    lost = wait_for(open_hold, what="a question")
    assert lost.expires_at is not None
    assert lost.expires_at < ends_at + timedelta(minutes=1)
    web.killed_and_started()
    waiting.join(timeout=60)
    decided(reviewer, edits={"branch": "lost"})
    assert upstream.calls == [], "nobody waits for this answer"
    results: list[Any] = []
    again = in_background(lambda: results.append(web_agent.call("asks__deploy")))
    assert decided(reviewer, edits={"branch": "main"}).execution_id != lost.execution_id
    again.join(timeout=60)
    assert text_of(results[0]) == "accept {'branch': 'main', 'loud': True}"
    assert [call["chosen"]["branch"] for call in upstream.calls] == ["main"]
    first = GateCall.objects.order_by("pk")[0]
    GateCall.objects.filter(pk=first.pk).update(sent_at=timezone.now() - timedelta(hours=1))
    assert sweeper_hooks.settle_lost() == 1
    first.refresh_from_db()
    assert first.outcome == "unknown"
