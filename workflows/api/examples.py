"""Examples of requests for the OpenAPI document.  A test sends each of them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample

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
COMMAND = [
    _request("Continue", {"kind": "continue", "version": 12}),
    _request("Abort", {"kind": "abort", "reason": "not needed any more"}),
    _request("Change the context", {"kind": "update_state", "updates": {"tone": "friendly"}}),
]
RESUME = [
    _request(
        "Approve with an edit",
        {
            "execution_id": 42,
            "hold_id": "42-1",
            "version": 12,
            "decision": "APPROVE",
            "edits": {"path": "notes.md"},
            "comment": "Another folder.",
        },
    ),
    _request(
        "Reject",
        {"execution_id": 42, "node_id": "again", "version": 12, "decision": "REJECT"},
    ),
]
WORKFLOW = [_request("Two tasks", {"name": "twice", "title": "Say it twice", "plan": _PLAN})]
TOKEN = [
    _request(
        "For one workflow",
        {"name": "nightly", "scopes": ["read", "run"], "workflows": ["release"]},
    )
]
