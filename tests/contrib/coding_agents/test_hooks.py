"""The endpoints for hooks of coding agents, with a person who decides."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from reviews.contrib.coding_agents.models import HookCall
from reviews.decisions.services import expire_due
from tests.contrib.coding_agents.test_hook_script import EVENTS
from tests.integration.workflows.approvals.conftest import Agent, decided, hold_of
from tests.integration.workflows.approvals.test_waiting import together
from workflows.models import Approval, ApprovalPolicy, Hold

pytestmark = pytest.mark.django_db(transaction=True)
CLAUDE, CODEX = EVENTS["claude-code"], EVENTS["codex"]


def hook(agent: Agent, name: str, event: Any, query: str = "") -> Any:
    url = f"/api/v1/hooks/{name}/?wait=0{query}"
    return agent.client.post(url, event, format="json")


def answered(response: Any) -> dict[str, Any]:
    assert response.status_code == 200, response.content
    return dict(response.json()["hookSpecificOutput"])


def only_approval() -> dict[str, Any]:
    approval = Approval.objects.get()
    return {"id": str(approval.pk), "execution_id": approval.execution_id}


def test_claude_code_goes_on_with_the_edited_input(agent: Agent, reviewer: User) -> None:
    first = answered(hook(agent, "claude-code", CLAUDE))
    assert first["permissionDecision"] == "deny"
    assert "Nobody has decided yet" in first["permissionDecisionReason"]
    asked = agent.get(only_approval()["id"])
    assert asked["action"] == {"name": "claude-code.Bash", "title": "Bash: Remove the build"}
    assert asked["requested_by"]["agent"] == "Claude Code"
    edits = {**CLAUDE["tool_input"], "command": "rm -r build/old"}
    decided(only_approval(), reviewer, edits=edits, comment="Only the old ones.")
    assert answered(hook(agent, "claude-code", CLAUDE)) == {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "updatedInput": edits,
    }


def test_a_rejection_reaches_the_agent(agent: Agent, reviewer: User) -> None:
    hook(agent, "codex", CODEX, "&call=k")
    decided(only_approval(), reviewer, "REJECT", comment="Not on a Friday.")
    answer = answered(hook(agent, "codex", CODEX, "&call=k"))
    assert answer["decision"]["behavior"] == "deny"
    assert answer["decision"]["message"].startswith("Not on a Friday. (http")


def test_the_envelope_names_the_status(agent: Agent, reviewer: User) -> None:
    query = "&envelope=true&call=k"
    assert hook(agent, "codex", CODEX, query).json()["status"] == "pending"
    decided(only_approval(), reviewer)
    body = hook(agent, "codex", CODEX, query).json()
    assert body["status"] == "approved"
    decision = {"behavior": "allow"}
    assert body["output"]["hookSpecificOutput"]["decision"] == decision


def test_an_equal_call_finds_the_open_approval(
    people: Callable[..., User], agent: Agent, reviewer: User
) -> None:
    hook(agent, "codex", CODEX)
    hook(agent, "codex", {**CODEX, "session_id": "another"})
    assert Approval.objects.count() == 1
    elsewhere = {**CODEX, "cwd": "/etc"}  # people approve a call in the folder that they see
    other = {**CODEX, "tool_input": {"command": "rm -r /"}}
    for asker, event in ((agent, elsewhere), (agent, other), (Agent(agent.user), CODEX)):
        before = Approval.objects.count()
        hook(asker, "codex", event)
        assert Approval.objects.count() == before + 1, event
    first = Approval.objects.earliest("pk")
    decided({"execution_id": first.execution_id}, reviewer, "REJECT", comment="no")
    hook(agent, "codex", CODEX)
    assert Approval.objects.count() == 5, "a decided approval answers no new call"


def test_an_approval_of_rest_answers_no_hook(agent: Agent, reviewer: User) -> None:
    """Its title and description are not those that the hook would show."""
    hook(agent, "codex", CODEX, "&call=k")
    shown = agent.get(only_approval()["id"])
    agent.post(f"{shown['id']}/cancel/", {})
    action = {**shown["action"], "arguments": shown["arguments"], "title": "Harmless"}
    agent.asked(action=action, context="Working folder: `/src`")
    hook(agent, "codex", CODEX)
    assert Approval.objects.count() == 3


def test_equal_calls_at_once_get_one_approval(agent: Agent) -> None:
    def ask(number: int) -> str:
        try:
            client = APIClient(headers=agent.headers)
            url = f"/api/v1/hooks/codex/?wait=0&envelope=true&call=k{number}"
            return str(client.post(url, CODEX, format="json").json()["status"])
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(ask, range(4))) == {"pending"}
    assert Approval.objects.count() == 1
    assert HookCall.objects.count() == 4


def test_an_approval_allows_one_of_equal_calls(agent: Agent, reviewer: User) -> None:
    for call in ("a", "b"):
        hook(agent, "codex", CODEX, f"&call={call}")
    decided(only_approval(), reviewer)
    query = "&envelope=true&call="
    assert hook(agent, "codex", CODEX, f"{query}b").json()["status"] == "approved"
    second = hook(agent, "codex", CODEX, f"{query}a").json()
    assert second["status"] == "completed"
    assert second["output"]["hookSpecificOutput"]["decision"]["behavior"] == "deny"
    assert hook(agent, "codex", CODEX, f"{query}b").json()["status"] == "approved"


def test_a_hook_that_stops_cancels_unless_another_waits(agent: Agent) -> None:
    for call in ("a", "b"):
        hook(agent, "codex", CODEX, f"&call={call}")
    HookCall.objects.update(waits_until=timezone.now() + timedelta(seconds=30))
    assert stop(agent, "a")["status"] == "pending"
    assert agent.get(only_approval()["id"])["awaited"] is True
    assert stop(agent, "b")["status"] == "cancelled"
    assert agent.get(only_approval()["id"])["comment"] == "The agent stopped waiting."
    assert stop(agent, "b")["status"] == "cancelled"


def test_a_hook_that_stops_first_opens_nothing(agent: Agent) -> None:
    """The signal reached it while its request was on the way."""
    assert stop(agent, "k")["status"] == "cancelled"
    late = hook(agent, "codex", CODEX, "&envelope=true&call=k").json()
    assert late["status"] == "cancelled"
    assert late["output"]["hookSpecificOutput"]["decision"]["behavior"] == "deny"
    assert not Approval.objects.exists()


def test_a_decision_at_the_last_moment_counts(agent: Agent, reviewer: User) -> None:
    hook(agent, "codex", CODEX, "&call=k")
    decided(only_approval(), reviewer)
    assert stop(agent, "k")["status"] == "approved"


def test_nobody_stops_the_call_of_another_token(agent: Agent) -> None:
    hook(agent, "codex", CODEX, "&call=k")
    assert stop(Agent(agent.user), "k")["status"] == "cancelled"
    assert agent.get(only_approval()["id"])["status"] == "pending"


def stop(agent: Agent, call: str) -> dict[str, Any]:
    url = f"/api/v1/hooks/codex/stop/?call={call}"
    response = agent.client.post(url, CODEX, format="json")
    assert response.status_code == 200, response.content
    return dict(response.json())


def test_the_page_says_that_nobody_waits(agent: Agent, reviewer: User, client: Client) -> None:
    hook(agent, "codex", CODEX, "&call=k")
    body = only_approval()
    hold = hold_of(body)
    client.force_login(reviewer)
    page = f"/review/{hold.execution_id}/{hold.pk}/"
    assert "The agent runs it with these arguments." in client.get(page).text
    assert agent.get(body["id"])["awaited"] is True
    # The hook was killed, or lost the network.
    Approval.objects.update(awaited_until=timezone.now() - timedelta(seconds=1))
    shown = client.get(page).text
    assert "The agent has stopped waiting for this decision." in shown
    assert "The agent runs it" not in shown
    assert agent.get(body["id"])["awaited"] is False
    # The next attempt waits for the same review.
    hook(agent, "codex", CODEX, "&call=again")
    assert "The agent runs it with these arguments." in client.get(page).text
    assert agent.get(body["id"])["awaited"] is True


def test_an_approval_of_a_hook_ends_without_its_person(agent: Agent) -> None:
    ApprovalPolicy.objects.create(pattern="codex.*", on_timeout="keep_waiting", timeout_seconds=60)
    hook(agent, "codex", CODEX)
    hold = hold_of(only_approval())
    assert hold.expires_at is not None
    agent.user.is_active = False
    agent.user.save()
    assert hook(agent, "codex", CODEX).status_code == 401
    Hold.objects.filter(pk=hold.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert expire_due() == 1
    hold.refresh_from_db()
    assert hold.status == Hold.Status.REJECTED


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_an_event_that_asks_nothing_is_refused(agent: Agent, name: str) -> None:
    event = {**EVENTS[name], "hook_event_name": "PostToolUse"}
    assert hook(agent, name, event).status_code == 422
    assert hook(agent, "other", event).status_code == 404
    assert not Approval.objects.exists()


@pytest.mark.parametrize("scopes", [("read",), ("decide",)])
def test_a_token_needs_the_scope(
    people: Callable[..., User], agent: Agent, scopes: tuple[str, ...]
) -> None:
    other = Agent(people("other", "integrator"), *scopes)
    assert hook(other, "codex", CODEX).status_code == 403
    assert APIClient().post("/api/v1/hooks/codex/", CODEX, format="json").status_code == 401


def test_auditors_ask_nothing(people: Callable[..., User], agent: Agent) -> None:
    for role, expected in (("auditor", 403), ("reviewer", 422), ("operator", 422)):
        asking = APIClient()
        asking.force_authenticate(people(role, role))
        for path in ("codex/", "codex/stop/"):
            response = asking.post(f"/api/v1/hooks/{path}", {}, format="json")
            assert response.status_code == expected, (role, path)


def test_equal_hooks_at_once_make_one_approval(agent: Agent) -> None:
    path, body = "/api/v1/hooks/codex/?wait=0&call=k", EVENTS["codex"]
    calls = [lambda: agent.client.post(path, body, format="json").status_code] * 4
    assert set(together(*calls)) <= {200, 202}
    assert Approval.objects.count() == 1
