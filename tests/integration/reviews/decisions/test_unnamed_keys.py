"""An edit that adds a key the tool's schema does not name is flagged, not lost in silence."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client as Browser
from mcp import Client as McpClient
from rest_framework.test import APIClient

from graphrag.models import Tool
from reviews.models import HumanReviewRecord
from tests.integration.reviews.conftest import Start, echo, only_hold
from tests.integration.reviews.pages import decision_fields
from tests.support.pages import Page
from workflows.mcp_server.authentication import authenticate_caller
from workflows.mcp_server.server import build_server
from workflows.models import Execution
from workflows.permissions.tokens import create_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

AFTER = "AFTER_EXECUTION"
EDITED = {"n": 2, "m": 3}
WARNING = {"path": "edits.m", "message": "is not named by the tool's schema"}


@pytest.fixture
def paused(start: Start) -> Execution:
    """A run whose output waits for review; the tool's output schema names `n` only."""
    execution = start(echo("a", {"n": 1}, phase=AFTER))
    _schema({"type": "object", "properties": {"n": {"type": "integer"}}})
    return execution


def _schema(schema: dict[str, Any]) -> None:
    Tool.objects.filter(name="builtin.echo").update(output_schema=schema)


def token(user: User) -> str:
    return create_token(user=user, name="t", scopes=["read", "decide"])[1]


def resume(user: User, execution: Execution, **more: Any) -> Any:
    client = APIClient(headers={"Authorization": f"Bearer {token(user)}"})
    body = {
        "execution_id": str(execution.pk),
        "hold_id": only_hold(execution).pk,
        "version": execution.version,
        "decision": "APPROVE",
    }
    return client.post("/api/v1/reviews/resume/", {**body, **more})


def test_rest_and_the_record_carry_the_warning(paused: Execution, reviewer: User) -> None:
    answer = resume(reviewer, paused, edits=EDITED)
    assert answer.status_code == 200, answer.content
    assert answer.json()["warnings"] == [WARNING]
    client = APIClient(headers={"Authorization": f"Bearer {token(reviewer)}"})
    record = client.get(f"/api/v1/reviews/history/{answer.json()['record_id']}/").json()
    assert record["warnings"] == [WARNING]


@pytest.mark.parametrize("edits", [{}, {"edits": {"n": 2}}])
def test_known_keys_give_no_warning(
    paused: Execution, reviewer: User, edits: dict[str, Any]
) -> None:
    assert resume(reviewer, paused, **edits).json()["warnings"] == []


def test_a_schema_without_additional_properties_refuses_the_edit(
    paused: Execution, reviewer: User
) -> None:
    _schema({"type": "object", "properties": {"n": {}}, "additionalProperties": False})
    answer = resume(reviewer, paused, edits=EDITED)
    assert answer.status_code == 422
    assert only_hold(paused).status == "OPEN"


def test_a_command_returns_the_warning(paused: Execution, reviewer: User) -> None:
    client = APIClient(headers={"Authorization": f"Bearer {token(reviewer)}"})
    hold = only_hold(paused).pk
    command = {"kind": "approval_response", "hold": hold, "approved": True, "edits": EDITED}
    answer = client.post(f"/api/v1/executions/{paused.pk}/commands/", command)
    assert answer.json()["warnings"] == [WARNING]


def test_mcp_returns_the_warning(paused: Execution, reviewer: User) -> None:
    caller = authenticate_caller(token(reviewer))
    assert caller is not None
    arguments = {
        "workflow_id": str(paused.pk), "approved": True, "edits": EDITED, "wait_seconds": 0
    }  # fmt: skip

    async def call() -> Any:
        async with McpClient(build_server(lambda ctx: caller)) as client:
            return await client.call_tool("approval_response", arguments)

    answer = asyncio.run(call())
    assert not answer.is_error
    told = answer.structured_content["message"]
    assert told.startswith("Decided, but edits.m is not named by the tool's schema.")


def test_the_page_confirms_the_warning_even_after_a_confirmed_diff(
    paused: Execution, reviewer: User
) -> None:
    browser = Browser()
    browser.force_login(reviewer)
    path = f"/review/{paused.pk}/{only_hold(paused).pk}/"
    form = {
        "decision": "APPROVE",
        "version": paused.version,
        "mode": "json",
        "edits_json": json.dumps(EDITED),
        "confirmed": "yes",
    }
    asked = browser.post(path, form)
    assert asked.status_code == 200
    (alert,) = Page(asked).names("alert")
    assert "does not name these fields" in alert
    assert decision_fields(Page(asked))["confirmed_unnamed"] == "m"
    assert not HumanReviewRecord.objects.exists()
    # Another such key than the one that was confirmed is asked about too.
    other = {**form, "edits_json": json.dumps({**EDITED, "k": 1}), "confirmed_unnamed": "m"}
    assert browser.post(path, other).status_code == 200
    assert not HumanReviewRecord.objects.exists()
    assert browser.post(path, {**form, "confirmed_unnamed": "m"}).status_code == 303
    assert HumanReviewRecord.objects.get().modified_data == EDITED
