"""LangChain's HumanInTheLoopMiddleware: from its interrupts to Command(resume=...).

Written for langchain 1.4 (langchain/agents/middleware/human_in_the_loop.py), both modes:
"batched" (HITLRequest, one interrupt for several calls) and "per_call" (ToolApprovalRequest).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langgraph.types import Command, Interrupt


def to_approvals(interrupts: Iterable[Interrupt[Any]]) -> dict[str, dict[str, Any]]:
    """Return request bodies by call: "<interrupt id>:<position>"."""
    return {call: _body(*details) for each in interrupts for call, details in _calls(each)}


def to_answer(
    interrupts: Iterable[Interrupt[Any]], decisions: Mapping[str, Mapping[str, Any]]
) -> Command[Any]:
    """Return the Command that resumes every interrupt with the decisions about its calls."""
    answers: dict[str, Any] = {}
    for each in interrupts:
        made = [_decision(decisions[call], *details) for call, details in _calls(each)]
        answers[each.id] = {"decisions": made} if "action_requests" in each.value else made[0]
    return Command(resume=answers)


def _calls(interrupt: Interrupt[Any]) -> list[tuple[str, tuple[dict[str, Any], set[str]]]]:
    """Return for every call: its id here, its action, and the decisions that are allowed."""
    value, schema = interrupt.value, interrupt.response_schema
    if "action_requests" in value:
        kinds = {each["action_name"]: each["allowed_decisions"] for each in value["review_configs"]}
        calls = [(each, kinds[each["name"]]) for each in value["action_requests"]]
    elif "discriminator" in schema:
        calls = [(value, schema["discriminator"]["mapping"])]
    else:
        calls = [(value, [schema["properties"]["type"]["const"]])]
    return [(f"{interrupt.id}:{n}", (a, set(kinds))) for n, (a, kinds) in enumerate(calls)]


def _body(action: dict[str, Any], allowed: set[str]) -> dict[str, Any]:
    fields = {"name": action["name"], "arguments": action["args"]}
    return {"action": fields, "editable": "edit" in allowed}


def _decision(
    decision: Mapping[str, Any], action: dict[str, Any], allowed: set[str]
) -> dict[str, Any]:
    edited = decision.get("edited") or decision["arguments"] != action["args"]
    if decision["status"] == "approved" and not edited and "approve" in allowed:
        return {"type": "approve"}
    if decision["status"] == "approved" and edited and "edit" in allowed:
        edit = {"name": action["name"], "args": decision["arguments"]}
        return {"type": "edit", "edited_action": edit}
    if decision["status"] == "pending" or "reject" not in allowed:
        raise ValueError(f"the middleware has no answer for {decision['status']!r} here")
    return {"type": "reject", "message": decision.get("comment") or "A reviewer did not approve."}
