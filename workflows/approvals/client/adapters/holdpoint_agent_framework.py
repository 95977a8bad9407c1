"""Microsoft Agent Framework: from function approval requests to a message with the responses.

    response = await agent.run("Pay invoice 4711", session=session)
    while requests := response.user_input_requests:
        decisions = await Client().decide_async(to_approvals(requests), key=run_id)
        response = await agent.run(to_answer(requests, decisions), session=session)

Written for agent-framework-core 1.23 (agent_framework/_types.py: Content, of the type
function_approval_request; _tools.py binds a response to the request in the session). A response
carries neither a reason nor other arguments, so reviewers cannot edit; an edited approval denies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent_framework import Content, Message


def to_approvals(requests: Iterable[Content]) -> dict[str, dict[str, Any]]:
    """Return request bodies by request id."""
    return {_id(each): _body(each) for each in requests}


def to_answer(requests: Iterable[Content], decisions: Mapping[str, Mapping[str, Any]]) -> Message:
    """Return the user message with one response per request."""
    answers = [
        each.to_function_approval_response(_approved(each, decisions[_id(each)]))
        for each in requests
    ]
    return Message(role="user", contents=answers)


def _body(request: Content) -> dict[str, Any]:
    name = request.function_call.name if request.function_call else None
    action = {"name": name or "unknown", "arguments": _arguments(request)}
    return {"action": action, "editable": False}


def _approved(request: Content, decision: Mapping[str, Any]) -> bool:
    if decision["status"] == "pending":
        raise ValueError("this approval is not decided yet")
    edited = decision.get("edited") or decision["arguments"] != _arguments(request)
    return decision["status"] == "approved" and not edited


def _id(request: Content) -> str:
    if request.type != "function_approval_request" or not request.id:
        raise ValueError(f"{request.type} is not an approval request with an id")
    return str(request.id)


def _arguments(request: Content) -> dict[str, Any]:
    call = request.function_call
    return dict((call.parse_arguments() if call else None) or {})
