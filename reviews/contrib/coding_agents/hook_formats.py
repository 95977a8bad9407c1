"""Codecs of the permission hooks of coding agents.

Formats: PreToolUse of Claude Code (claude_agent_sdk/types.py 0.2: PreToolUseHookInput,
PreToolUseHookSpecificOutput) and PermissionRequest of Codex (openai/codex,
codex-rs/hooks/schema/generated/permission-request.command.*.schema.json).

An answer allows a call only for the status `approved`; everything else denies it with a reason,
because both agents treat a missing or malformed answer as "no objection".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from workflows.common.redaction import mask_secrets
from workflows.engine.plans.validation import Problem
from workflows.executions.validation import InvalidRequest

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.:/@\-]")
_REASONS: Final = {
    "pending": "Nobody has decided yet. Ask again later, or tell the user.",
    "rejected": "A reviewer rejected this call.",
    "changes_requested": "A reviewer asked for changes.",
    "expired": "Nobody approved this call in time.",
    "cancelled": "The approval was cancelled.",
    "completed": "This call was executed before.",
    "failed": "The approval failed.",
}


@dataclass(frozen=True, slots=True)
class Agent:
    """A coding agent: its hook event, and whether the event's answer can change the input."""

    name: str
    title: str
    event: str
    is_editable: bool


AGENTS: Final = {
    each.name: each
    for each in (
        Agent("claude-code", "Claude Code", "PreToolUse", is_editable=True),
        Agent("codex", "Codex", "PermissionRequest", is_editable=False),
    )
}


def request_of(agent: Agent, event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request for an approval of the call that `event` is about.

    Raises InvalidRequest for an event that is not the agent's permission event.
    """
    name, arguments = event.get("tool_name"), event.get("tool_input")
    problems = []
    if event.get("hook_event_name") != agent.event:
        problems.append(Problem("hook_event_name", "unknown_event", f"must be {agent.event}"))
    if not isinstance(name, str) or not name:
        problems.append(Problem("tool_name", "required", "must be the name of a tool"))
    if not isinstance(arguments, dict):
        problems.append(Problem("tool_input", "required", "must be an object"))
    if problems:
        raise InvalidRequest(tuple(problems))
    assert isinstance(name, str)  # noqa: S101 - checked above
    assert isinstance(arguments, dict)  # noqa: S101
    description = arguments.get("description")
    title = name
    if isinstance(description, str) and description:
        # Masked before the title is cut: a part of a secret may no longer look like one.
        title = f"{name}: {mask_secrets(description)}"
    cwd = event.get("cwd")
    return {
        "action": {
            "name": f"{agent.name}.{_NOT_IN_NAMES.sub('_', name)}"[:199],
            "title": title[:200],
            "arguments": arguments,
        },
        "editable": agent.is_editable,
        "context": f"Working folder: `{cwd}`" if isinstance(cwd, str) and cwd else "",
        "requested_by": {
            "agent": agent.title,
            "session": str(event.get("session_id") or "")[:200],
        },
    }


def key_of(agent: Agent, event: Mapping[str, Any]) -> str:
    """Return what makes a repeated event the same call; "" if it has no id of its own."""
    ids = (event.get("session_id"), event.get("tool_use_id"))
    if not all(isinstance(each, str) and each for each in ids):
        return ""
    return ":".join(("hook", agent.name, *map(str, ids)))


def answer(agent: Agent, event: Mapping[str, Any], approval: Mapping[str, Any]) -> dict[str, Any]:
    """Return the agent's answer to `event` from the body of an approval."""
    status, arguments = approval["status"], approval["arguments"]
    if status == "approved" and (agent.is_editable or arguments == event.get("tool_input")):
        return _allowed(agent, arguments)
    reason = approval.get("comment") or _REASONS.get(status, "The call was not approved.")
    return denial(agent, f"{reason} ({approval['review_url']})")


def denial(agent: Agent, reason: str) -> dict[str, Any]:
    """Return the answer that denies the call."""
    if agent.event == "PreToolUse":
        return _output(agent, {"permissionDecision": "deny", "permissionDecisionReason": reason})
    return _output(agent, {"decision": {"behavior": "deny", "message": reason}})


def _allowed(agent: Agent, arguments: Mapping[str, Any]) -> dict[str, Any]:
    if agent.event == "PreToolUse":
        # The decided arguments also if they are unchanged: only these were approved.
        allowed = {"permissionDecision": "allow", "updatedInput": arguments}
        return _output(agent, allowed)
    return _output(agent, {"decision": {"behavior": "allow"}})


def _output(agent: Agent, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": agent.event, **fields}}
