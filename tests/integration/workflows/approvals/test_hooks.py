"""The endpoints for hooks of coding agents, with a person who decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from tests.integration.workflows.approvals.conftest import Agent, decided
from tests.unit.workflows.approvals.test_hook_script import EVENTS
from workflows.models import Approval

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


def test_every_event_without_an_id_asks_anew(agent: Agent) -> None:
    hook(agent, "codex", CODEX)
    hook(agent, "codex", CODEX)
    assert Approval.objects.count() == 2


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
