"""AG-UI interrupts: from the interrupts of a finished run to the `resume` of the next one.

Written for ag-ui-protocol 1.0 (ag_ui.core: Interrupt, ResumeEntry; docs/concepts/interrupts.mdx).
An interrupt of the reason "tool_call" names a call in the thread's messages, which has the
arguments; reviewers may edit them if its schema has `editedArgs`, a full replacement. Interrupts
that ask for anything else than approval raise ValueError.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ag_ui.core import Interrupt, Message, ResumeEntry


def to_approvals(
    interrupts: Iterable[Interrupt], messages: Sequence[Message]
) -> dict[str, dict[str, Any]]:
    """Return request bodies by interrupt id."""
    return {each.id: _body(each, messages) for each in interrupts}


def to_answer(
    interrupts: Sequence[Interrupt],
    messages: Sequence[Message],
    decisions: Mapping[str, Mapping[str, Any]],
) -> list[ResumeEntry]:
    """Return one resume entry per interrupt; a denial is resolved with `approved: false`."""
    entries = []
    for call_id, body in to_approvals(interrupts, messages).items():
        decision, payload = decisions[call_id], {"approved": False}
        if decision["status"] == "pending":
            raise ValueError("this approval is not decided yet")
        edited = decision.get("edited") or decision["arguments"] != body["action"]["arguments"]
        if decision["status"] == "approved" and (body["editable"] or not edited):
            edits = {"editedArgs": decision["arguments"]} if edited else {}
            payload = {"approved": True, **edits}
        about = {"comment": decision.get("comment") or "", "approval_id": decision["id"]}
        entry = {"interrupt_id": call_id, "status": "resolved", "payload": payload}
        entries.append(ResumeEntry(**entry, metadata={"holdpoint": about}))
    return entries


def _body(interrupt: Interrupt, messages: Sequence[Message]) -> dict[str, Any]:
    fields = (interrupt.response_schema or {}).get("properties", {})
    calls = [call for each in messages for call in getattr(each, "tool_calls", None) or ()]
    call = next((each for each in calls if each.id == interrupt.tool_call_id), None)
    if interrupt.reason != "tool_call" or call is None or "approved" not in fields:
        raise ValueError(f"interrupt {interrupt.id} does not ask for approval of a tool call")
    action = {"name": call.function.name, "arguments": json.loads(call.function.arguments)}
    context = {"context": interrupt.message} if interrupt.message else {}
    return {"action": action, "editable": "editedArgs" in fields, **context}
