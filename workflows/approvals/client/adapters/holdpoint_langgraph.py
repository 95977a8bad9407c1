"""LangGraph's `interrupt`: from Interrupt objects to Command(resume=...).

    answer = interrupt({"name": "payments.transfer", "arguments": {"amount": 250}})
    if answer["approved"]:
        transfer(**answer["arguments"])

Written for langgraph 1.2 (langgraph/types.py: interrupt, Interrupt, Command). The value may have
the fields of `action` (name, arguments, title, description, schema); any other value is shown as
the argument "value" of the action "langgraph.interrupt". For the interrupts of LangChain's
HumanInTheLoopMiddleware see holdpoint_langchain_hitl.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langgraph.types import Command, Interrupt

_FIELDS = ("name", "arguments", "title", "description", "schema")


def to_approvals(interrupts: Iterable[Interrupt[Any]]) -> dict[str, dict[str, Any]]:
    """Return request bodies by interrupt id."""
    return {each.id: {"action": _action(each.value)} for each in interrupts}


def to_answer(
    interrupts: Iterable[Interrupt[Any]], decisions: Mapping[str, Mapping[str, Any]]
) -> Command[Any]:
    """Return the Command that resumes every interrupt with its decision."""
    return Command(resume={each.id: _resume(decisions[each.id]) for each in interrupts})


def _action(value: Any) -> dict[str, Any]:
    named = isinstance(value, Mapping) and isinstance(value.get("name"), str)
    if named and isinstance(value.get("arguments"), Mapping):
        return {name: value[name] for name in _FIELDS if name in value}
    return {"name": "langgraph.interrupt", "arguments": {"value": value}}


def _resume(decision: Mapping[str, Any]) -> dict[str, Any]:
    if decision["status"] == "pending":
        raise ValueError("this approval is not decided yet")
    return {
        "approved": decision["status"] == "approved",
        "arguments": decision["arguments"],
        "comment": decision.get("comment") or "",
        "approval_id": decision["id"],
    }
