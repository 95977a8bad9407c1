"""Claude Agent SDK: from a `can_use_tool` call to a PermissionResult.

    async def can_use_tool(name, tool_input, context):
        bodies = to_approvals(name, tool_input, context)
        return to_answer(await client.decide_async(bodies), context)

Written for claude-agent-sdk 0.2 (claude_agent_sdk/types.py: CanUseTool, ToolPermissionContext,
PermissionResultAllow, PermissionResultDeny). The SDK does not ask for tools that its rules allow:
leave them out of `allowed_tools`. An allowed call always runs with the decided arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny, ToolPermissionContext


def to_approvals(
    name: str, tool_input: Mapping[str, Any], context: ToolPermissionContext
) -> dict[str, dict[str, Any]]:
    """Return the request body by tool use id."""
    action: dict[str, Any] = {"name": name, "arguments": dict(tool_input)}
    if context.title:
        action["title"] = context.title
    body: dict[str, Any] = {"action": action}
    if context.decision_reason:
        body["context"] = context.decision_reason
    return {_call_id(context): body}


def to_answer(
    decisions: Mapping[str, Mapping[str, Any]], context: ToolPermissionContext
) -> PermissionResultAllow | PermissionResultDeny:
    """Return the permission for the call."""
    decision = decisions[_call_id(context)]
    if decision["status"] == "approved":
        return PermissionResultAllow(updated_input=dict(decision["arguments"]))
    reason = decision.get("comment") or f"The approval is {decision['status']}."
    return PermissionResultDeny(message=reason)


def _call_id(context: ToolPermissionContext) -> str:
    if not context.tool_use_id:
        raise ValueError("the SDK gave this call no id")
    return str(context.tool_use_id)
