"""Google ADK tool confirmations: from `adk_request_confirmation` calls to function responses.

    async for event in runner.run_async(user_id=user, session_id=session, new_message=message):
        calls += confirmation_calls(event)
    decisions = await Client().decide_async(to_approvals(calls), key=session)
    message = to_answer(calls, decisions)

Written for google-adk 2.13 (google/adk/flows/llm_flows/tools/_functions.py:
generate_request_confirmation_event; tools/tool_confirmation.py: ToolConfirmation). ADK runs a
confirmed call with its original arguments, so reviewers cannot edit them: an edited approval is
not confirmed. The tool reads the comment and the approval's id in `tool_confirmation.payload`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from google.adk.events import Event
from google.genai import types

_NAME = "adk_request_confirmation"


def confirmation_calls(event: Event) -> list[types.FunctionCall]:
    """Return the confirmation requests of an event."""
    return [call for call in event.get_function_calls() if call.name == _NAME]


def to_approvals(calls: Iterable[types.FunctionCall]) -> dict[str, dict[str, Any]]:
    """Return request bodies by the id of the confirmation request."""
    bodies = {}
    for call in calls:
        args = call.args or {}
        original, hint = args["originalFunctionCall"], args.get("toolConfirmation", {}).get("hint")
        action = {"name": original["name"], "arguments": dict(original.get("args") or {})}
        context = {"context": hint} if hint else {}
        bodies[str(call.id)] = {"action": action, "editable": False, **context}
    return bodies


def to_answer(
    calls: Iterable[types.FunctionCall], decisions: Mapping[str, Mapping[str, Any]]
) -> types.Content:
    """Return the user message that answers every confirmation request."""
    parts = []
    for call_id, body in to_approvals(calls).items():
        decision = decisions[call_id]
        if decision["status"] == "pending":
            raise ValueError("this approval is not decided yet")
        edited = decision.get("edited") or decision["arguments"] != body["action"]["arguments"]
        confirmed = decision["status"] == "approved" and not edited
        payload = {"comment": decision.get("comment") or "", "approval_id": decision["id"]}
        answer = {"confirmed": confirmed, "payload": payload}
        response = types.FunctionResponse(id=call_id, name=_NAME, response=answer)
        parts.append(types.Part(function_response=response))
    return types.Content(role="user", parts=parts)
