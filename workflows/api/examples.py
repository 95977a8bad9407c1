"""Examples for the OpenAPI document.

This module holds requests with several variants; a test sends each of them. All other requests and
all responses are in `examples.json` by operation id: `make examples` records them from the API
(tests/integration/workflows/api/test_scenario.py).  A test validates each example against its
schema and requires one for every body.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from drf_spectacular.utils import OpenApiExample

#: Name of the recorded example of a body.
RECORDED = "Example"
RECORDED_IN = Path(__file__).with_suffix(".json")

_PLAN = {
    "tasks": [
        {"id": "hello", "type": "tool", "tool": "builtin.echo", "arguments": {"value": "hello"}},
        {
            "id": "again",
            "type": "tool",
            "tool": "builtin.echo",
            "arguments": {"value": {"$from": "hello"}},
            "human_review": {"trigger_phase": "BEFORE_EXECUTION", "groups": ["reviewer"]},
        },
    ]
}


def _request(name: str, value: dict[str, Any]) -> OpenApiExample:
    return OpenApiExample(name, value=value, request_only=True)


START = [
    _request("A plan", {"title": "Say it twice", "plan": _PLAN}),
    _request("A workflow", {"workflow": "release", "inputs": {"repo": "."}}),
    _request("An intent", {"intent": "list the entries of a directory", "inputs": {"path": "."}}),
]
ASK = [
    _request(
        "Before it runs",
        {
            "action": {
                "name": "payments.transfer",
                "title": "Pay invoice 4711",
                "arguments": {"to": "ACME", "amount": 250},
                "schema": {
                    "type": "object",
                    "properties": {"to": {"type": "string"}, "amount": {"type": "number"}},
                },
            },
            "editable": ["/amount"],
            "context": "Invoice 4711 is due **today**.",
            "requested_by": {"agent": "billing-bot", "session": "2026-03-02"},
        },
    ),
    _request(
        "After it ran",
        {
            "action": {"name": "mail.draft", "arguments": {"to": "Ada"}, "output": "Dear Ada, …"},
            "phase": "AFTER_EXECUTION",
            "risk": "low",
        },
    ),
]
COMMAND = [
    _request("Continue", {"kind": "continue", "version": 12}),
    _request("Abort", {"kind": "abort", "reason": "not needed any more"}),
    _request("Change the context", {"kind": "update_state", "updates": {"tone": "friendly"}}),
]
RESUME = [
    _request(
        "Approve with an edit",
        {
            "execution_id": "42",
            "hold_id": "42-1",
            "version": 12,
            "decision": "APPROVE",
            "edits": {"path": "notes.md"},
            "comment": "Another folder.",
        },
    ),
    _request(
        "Reject",
        {"execution_id": "42", "node_id": "again", "version": 12, "decision": "REJECT"},
    ),
    _request(
        "Request changes",
        {
            "execution_id": "42",
            "hold_id": "42-2",
            "version": 15,
            "decision": "REQUEST_CHANGES",
            "comment": "Shorter, please.",
        },
    ),
]
WORKFLOW = [_request("Two tasks", {"name": "twice", "title": "Say it twice", "plan": _PLAN})]
TOKEN = [
    _request(
        "For one workflow",
        {"name": "nightly", "scopes": ["read", "run"], "workflows": ["release"]},
    )
]


# One per process, never invalidated: the file is part of the release.
@cache
def _recorded() -> dict[str, Any]:
    examples: dict[str, Any] = json.loads(RECORDED_IN.read_text(encoding="utf-8"))
    return examples


def add_examples(result: Any, **about: Any) -> Any:
    """Postprocessing hook of drf-spectacular: add recorded examples to operations without one."""
    for item in result["paths"].values():
        for operation in item.values():
            known = _recorded().get(operation.get("operationId"), {})
            if "request" in known:
                _add(operation["requestBody"], known["request"])
            for status, answer in known.get("responses", {}).items():
                _add(operation["responses"][status], answer)
    return result


def _add(described: dict[str, Any], value: Any) -> None:
    media = described["content"]["application/json"]
    media.setdefault("examples", {RECORDED: {"value": value}})
