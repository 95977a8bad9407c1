"""Arguments that do not fit: a tool's error that names the field, and nothing happens."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.workflows.mcp_server.conftest import Call, at_rest, chain
from tests.integration.workflows.mcp_server.web import refused
from workflows.models import Execution

pytestmark = pytest.mark.django_db(transaction=True)

PLAN = chain("a")
TASK = PLAN["tasks"][0]
ASKED: dict[str, Any] = {"idempotency_key": "k", "action": {"name": "a"}}
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("execute", {}, "workflow"),
    ("execute", {"plan": PLAN, "intent": "x"}, "intent"),
    ("execute", {"intent": "x" * 2001}, "intent"),
    ("execute", {"plan": PLAN, "extra": 1}, "extra"),
    ("execute", {"plan": []}, "plan"),
    ("execute", {"plan": {}}, "plan.tasks"),
    ("execute", {"plan": {"tasks": [{"id": "a"}]}}, "plan.tasks[0]"),
    ("execute", {"plan": {"tasks": [{**TASK, "tool": "no.such"}]}}, "plan.tasks[0].tool"),
    ("execute", {"plan": {"tasks": [{**TASK, "arguments": {}}]}}, "plan.tasks[0].arguments"),
    ("execute", {"workflow": "no such"}, "workflow"),
    ("execute", {"workflow": ""}, "workflow"),
    ("execute", {"plan": PLAN, "inputs": 1}, "inputs"),
    ("execute", {"plan": PLAN, "config": {"wait_seconds": 56}}, "config.wait_seconds"),
    ("execute", {"plan": PLAN, "config": {"per_layer_validation": "yes"}}, "config.per_layer"),
    ("execute", {"plan": PLAN, "config": {"x": 1}}, "config.x"),
    ("execute", {"plan": PLAN, "config": {"policy": {"x": 1}}}, "policy.x"),
    ("execute", {"plan": PLAN, "idempotency_key": "a b"}, "idempotency_key"),
    ("continue", {}, "workflow_id"),
    ("continue", {"workflow_id": "1", "version": -1}, "version"),
    ("continue", {"workflow_id": "1", "version": "1"}, "version"),
    ("continue", {"workflow_id": True}, "workflow_id"),
    ("continue", {"workflow_id": None}, "workflow_id"),
    ("abort", {"workflow_id": "1", "reason": "x" * 4001}, "reason"),
    ("replan", {"workflow_id": "1"}, "new_requirement"),
    ("replan", {"workflow_id": "1", "new_requirement": ""}, "new_requirement"),
    ("approval_response", {"workflow_id": "1"}, "approved"),
    ("approval_response", {"workflow_id": "1", "approved": "true"}, "approved"),
    ("get_execution", {"workflow_id": "1", "max_output_chars": 1}, "max_output_chars"),
    ("list_pending", {"limit": 101}, "limit"),
    ("list_pending", {"cursor": "x"}, "cursor"),
    ("list_pending", {"cursor": "2026-01-01T00:00:00|1"}, "cursor"),
    ("list_pending", {"decider": "dog"}, "decider"),
    ("request_approval", {"action": {"name": "a"}}, "idempotency_key"),
    ("request_approval", {"idempotency_key": "k"}, "action"),
    ("request_approval", {"idempotency_key": "k", "action": {"name": "a b"}}, "action.name"),
    ("request_approval", {"idempotency_key": "k", "action": {"name": "a", "x": 1}}, "action.x"),
    ("request_approval", {**ASKED, "groups": ["typo"]}, "groups[0]"),
    ("request_approval", {**ASKED, "phase": "AFTER_EXECUTION"}, "action.output"),
    ("request_approval", {**ASKED, "risk": "none"}, "risk"),
    ("request_approval", {**ASKED, "editable": ["amount"]}, "editable"),
    ("search_tools", {"query": ""}, "query"),
    ("search_tools", {"query": "x", "read_only": 1}, "read_only"),
    ("predict_next", {"done": []}, "done"),
    ("similar_decisions", {"tool": ""}, "tool"),
    ("similar_decisions", {"tool": "x", "arguments": [1]}, "arguments"),
    ("predict_next", {"done": ["x" * 201]}, "done"),
]  # fmt: skip


def test_an_invalid_argument_names_its_field_and_starts_nothing(call: Call) -> None:
    before = Execution.objects.count()
    for tool, arguments, field in BAD:
        told = refused(call("operator", tool, scopes=("read", "run", "ask"), **arguments))
        assert told["code"] == "invalid", (tool, arguments, told)
        assert told["errors"][0]["path"].startswith(field), (tool, arguments, told)
        assert field in told["text"]
    assert Execution.objects.count() == before


def test_several_faults_are_named_together(call: Call) -> None:
    told = refused(call("operator", "list_pending", limit=0, decider="dog", x=1))
    assert {each["path"] for each in told["errors"]} == {"limit", "decider", "x"}
    assert len(told["text"].splitlines()) == 3


def test_a_long_output_is_truncated(call: Call) -> None:
    plan = chain("a")
    plan["tasks"][0]["arguments"]["value"] = "x" * 500
    started = call("operator", "execute", plan=plan, config={"wait_seconds": 0})
    workflow = started.structured_content["workflow_id"]
    at_rest(Execution.objects.get(pk=workflow))
    found = call("operator", "get_execution", workflow_id=workflow, max_output_chars=100)
    (task,) = found.structured_content["layer_results"]
    assert (task["output"], task["output_truncated"]) == ('"' + "x" * 99, True)
