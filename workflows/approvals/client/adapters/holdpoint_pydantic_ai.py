"""pydantic-ai's deferred tools: from DeferredToolRequests to DeferredToolResults.

    result = agent.run_sync("Pay invoice 4711")
    while isinstance(result.output, DeferredToolRequests):
        decisions = Client().decide(to_approvals(result.output), key=run_id)
        answers = to_answer(result.output, decisions)
        result = agent.run_sync(
            message_history=result.all_messages(), deferred_tool_results=answers
        )

Written for pydantic-ai 2.68 (pydantic_ai/_deferred.py, docs/deferred-tools.md). Only `approvals`
are answered; external calls in `calls` stay yours. An approved call always runs with the decided
arguments (`override_args`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from pydantic_ai.messages import ToolCallPart


def to_approvals(requests: DeferredToolRequests) -> dict[str, dict[str, Any]]:
    """Return request bodies by tool call id."""
    return {call.tool_call_id: _body(call, requests) for call in requests.approvals}


def to_answer(
    requests: DeferredToolRequests, decisions: Mapping[str, Mapping[str, Any]]
) -> DeferredToolResults:
    """Return the results with which the next run goes on."""
    answers = {call.tool_call_id: decisions[call.tool_call_id] for call in requests.approvals}
    return requests.build_results(
        approvals={call_id: _approval(answer) for call_id, answer in answers.items()},
        answered_by={
            call_id: str(answer["decided_by"])
            for call_id, answer in answers.items()
            if answer.get("decided_by")
        },
    )


def _body(call: ToolCallPart, requests: DeferredToolRequests) -> dict[str, Any]:
    body: dict[str, Any] = {"action": {"name": call.tool_name, "arguments": call.args_as_dict()}}
    reason = requests.metadata.get(call.tool_call_id, {}).get("reason")
    return {**body, "context": str(reason)} if reason else body


def _approval(decision: Mapping[str, Any]) -> ToolApproved | ToolDenied:
    if decision["status"] == "pending":
        raise ValueError("this approval is not decided yet")
    if decision["status"] == "approved":
        return ToolApproved(override_args=dict(decision["arguments"]))
    return ToolDenied(decision.get("comment") or f"The approval was {decision['status']}.")
