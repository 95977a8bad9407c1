"""Agent Client Protocol: from `session/request_permission` to its response.

    async def request_permission(self, options, session_id, tool_call, **more):
        request = RequestPermissionRequest(
            session_id=session_id, tool_call=tool_call, options=options
        )
        return to_answer(request, await client.decide_async(to_approvals(request)))

Written for agent-client-protocol 0.12 (acp/schema.py: RequestPermissionRequest, PermissionOption,
RequestPermissionResponse). A decision is for one call: only options of the kinds allow_once and
reject_once are selected. The protocol has no other arguments, so reviewers cannot edit them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    RequestPermissionRequest,
    RequestPermissionResponse,
)


def to_approvals(request: RequestPermissionRequest) -> dict[str, dict[str, Any]]:
    """Return the request body by tool call id."""
    call = request.tool_call
    action: dict[str, Any] = {
        "name": f"acp.{call.kind or 'other'}",
        "arguments": _arguments(request),
    }
    if call.title:
        action["title"] = call.title
    requester = {"agent": "acp", "session": request.session_id}
    return {call.tool_call_id: {"action": action, "editable": False, "requested_by": requester}}


def to_answer(
    request: RequestPermissionRequest, decisions: Mapping[str, Mapping[str, Any]]
) -> RequestPermissionResponse:
    """Return the selected option; without a suitable one the request is cancelled."""
    decision = decisions[request.tool_call.tool_call_id]
    if decision["status"] == "pending":
        raise ValueError("this approval is not decided yet")
    edited = decision.get("edited") or decision["arguments"] != _arguments(request)
    approved = decision["status"] == "approved" and not edited
    kind = "allow_once" if approved else "reject_once"
    option = next((each.option_id for each in request.options if each.kind == kind), None)
    if option is None:
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
    selected = AllowedOutcome(outcome="selected", option_id=option)
    return RequestPermissionResponse(outcome=selected)


def _arguments(request: RequestPermissionRequest) -> dict[str, Any]:
    value = request.tool_call.raw_input
    return dict(value) if isinstance(value, Mapping) else {"input": value}
