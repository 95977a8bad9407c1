"""OpenAI Agents SDK: from the interruptions of a RunState to approvals and rejections in it.

    result = await Runner.run(agent, "Pay invoice 4711")
    while result.interruptions:
        state = result.to_state()
        decisions = await Client().decide_async(to_approvals(state), key=run_id)
        result = await Runner.run(agent, to_answer(state, decisions))

Written for openai-agents 0.24 (agents/run_state.py: get_interruptions, approve, reject;
agents/items.py: ToolApprovalItem). The SDK cannot run a call with other arguments, so reviewers
cannot edit them; an edited approval is answered as a rejection that names the arguments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agents import RunState, ToolApprovalItem


def to_approvals(state: RunState[Any, Any]) -> dict[str, dict[str, Any]]:
    """Return request bodies by call id."""
    return {_call_id(item): _body(item) for item in state.get_interruptions()}


def to_answer(
    state: RunState[Any, Any], decisions: Mapping[str, Mapping[str, Any]]
) -> RunState[Any, Any]:
    """Return the state with every interruption approved or rejected."""
    for item in state.get_interruptions():
        decision = decisions[_call_id(item)]
        if decision["status"] == "pending":
            raise ValueError("this approval is not decided yet")
        edited = decision.get("edited") or decision["arguments"] != _arguments(item)
        if decision["status"] == "approved" and not edited:
            state.approve(item)
            continue
        reason = decision.get("comment") or f"The approval was {decision['status']}."
        if decision["status"] == "approved":
            reason = f"Approved only with these arguments: {json.dumps(decision['arguments'])}"
        state.reject(item, rejection_message=reason)
    return state


def _body(item: ToolApprovalItem) -> dict[str, Any]:
    action = {"name": item.qualified_name or "unknown", "arguments": _arguments(item)}
    return {"action": action, "editable": False, "requested_by": {"agent": item.agent.name}}


def _call_id(item: ToolApprovalItem) -> str:
    if not item.call_id:
        raise ValueError("the SDK gave this call no id")
    return str(item.call_id)


def _arguments(item: ToolApprovalItem) -> dict[str, Any]:
    value = json.loads(item.arguments or "{}")
    return value if isinstance(value, dict) else {"input": value}
