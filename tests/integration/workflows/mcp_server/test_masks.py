"""Secrets of a run over MCP: its starter sees them, everybody else sees marks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.workflows.mcp_server.conftest import (
    VALIDATED,
    Call,
    at_rest,
    reviewed,
    value,
)
from workflows.executions import services
from workflows.models import Execution

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "hunter2-hunter2"
VALUE = {"city": "Graz", "password": SECRET}


def run_of(owner: User, plan: dict[str, Any], **policy: Any) -> Execution:
    return at_rest(services.start_execution(actor=owner, plan=plan, policy=policy))


def seen(call: Call, role: str, execution: Execution) -> dict[str, Any]:
    result = call(role, "get_execution", scopes=("read",), workflow_id=str(execution.pk))
    assert not result.is_error, result.content
    return dict(result.structured_content)


def test_outputs_and_the_next_layer_are_masked_for_others(
    call: Call, people: dict[str, User]
) -> None:
    second = value("second", VALUE, depends_on=["first"])
    plan = {"tasks": [value("first", VALUE), second]}
    execution = run_of(people["integrator"], plan, **VALIDATED)
    own = seen(call, "integrator", execution)
    assert own["layer_results"][0]["output"] == VALUE
    assert own["next_layer_preview"][0]["inputs"] == {"value": VALUE}
    for role in ("auditor", "operator", "admin"):
        answer = seen(call, role, execution)
        shown = answer["layer_results"][0]["output"]
        assert (shown["city"], shown["password"][:2]) == ("Graz", "[•")
        assert answer["next_layer_preview"][0]["inputs"]["value"]["password"][:2] == "[•"
        assert SECRET not in json.dumps(answer)


def test_pending_reviews_are_masked_for_others(call: Call, people: dict[str, User]) -> None:
    plan = reviewed()
    plan["tasks"][0]["arguments"]["value"] = VALUE
    execution = run_of(people["integrator"], plan)
    assert seen(call, "integrator", execution)["approvals"][0]["payload"] == VALUE
    answer = seen(call, "reviewer", execution)
    assert answer["approvals"][0]["payload"]["city"] == "Graz"
    assert SECRET not in json.dumps(answer)


def test_errors_are_masked_for_others(call: Call, people: dict[str, User]) -> None:
    message = f"login failed: password={SECRET}"
    fails = {"id": "bad", "type": "tool", "tool": "builtin.fail", "arguments": {"message": message}}
    execution = run_of(people["integrator"], {"tasks": [fails]})
    assert SECRET in json.dumps(seen(call, "integrator", execution))
    assert SECRET not in json.dumps(seen(call, "auditor", execution))


def test_forking_a_run_does_not_reveal_its_secrets(call: Call, people: dict[str, User]) -> None:
    execution = run_of(people["integrator"], {"tasks": [value("first", VALUE)]})
    fork = services.fork_execution(
        execution=execution,
        checkpoint=execution.checkpoints.earliest("layer"),
        actor=people["operator"],
    )
    at_rest(fork)
    assert SECRET not in json.dumps(seen(call, "operator", fork))
