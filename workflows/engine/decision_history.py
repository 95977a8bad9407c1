"""Who decided what in an execution: people's and agents' decisions, read from its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .state import HoldReason

#: Events that are decisions.  An `execution_aborted` is one unless it follows from another.
DECISIVE: Final = (
    "hold_voted",
    "hold_answered",
    "hold_withdrawn",
    "hold_decided",
    "agent_decided",
    "agent_failed",
    "execution_aborted",
)
#: Decisions that end a run: the abort recorded right after them is their consequence.
ENDING: Final = ("hold_decided", "hold_answered", "agent_decided")

_AGENTS: Final = (HoldReason.LAYER_VALIDATION.value, HoldReason.AGENT_DECISION.value)


def is_decision(kind: str, payload: Mapping[str, Any]) -> bool:
    """Whether a stored event is a decision of its own, and not the outcome of an earlier one."""
    if kind == "hold_decided":
        # It carries out a decision that could be undone, and that is listed already.
        return not payload.get("answered")
    # A silent external agent's hold is decided by an event of its own.
    return kind in DECISIVE and not (kind == "agent_failed" and payload.get("hold_id"))


def decision_of(
    kind: str, payload: Mapping[str, Any], actor: str, *, for_agent: bool = False
) -> dict[str, Any]:
    """A stored decision event as a decision.

    `type` is HIL for people and AIL for agents; `edited` says whether the reviewer changed what was
    shown.  `for_agent`: the run was aborted while it waited for an agent.
    """
    if kind in ("agent_decided", "agent_failed"):
        return _of_agent(kind, payload)
    if kind == "execution_aborted":
        return _decision("AIL" if for_agent else "HIL", "ABORT", actor, comment=payload["reason"])
    reason = str(payload.get("reason", ""))
    is_agent = reason in _AGENTS
    return _decision(
        "AIL" if is_agent else "HIL",
        _word(kind, payload, is_agent=is_agent),
        actor,
        reviewer=reviewer_of(kind, payload, actor),
        hold_id=payload["hold_id"],
        node_id=payload.get("task_id"),
        trigger_phase=payload.get("phase"),
        reason=reason,
        comment=payload.get("comment", ""),
        edited=bool(payload.get("edited")),
        is_vote=kind == "hold_voted" or payload.get("what") == "vote",
    )


def reviewer_of(kind: str, payload: Mapping[str, Any], actor: str) -> str | None:
    """The person who decided a hold; None for an agent, for time, and for any other event."""
    if kind not in ("hold_voted", "hold_answered", "hold_withdrawn", "hold_decided"):
        return None
    by_person = not payload.get("by_timeout") and payload.get("reason") not in _AGENTS
    return actor if by_person and actor not in ("", "system") else None


def _of_agent(kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    failed = kind == "agent_failed"
    decision = payload["default"] if failed else payload["decision"]
    comment = payload["error"] if failed else payload["reason"]
    return _decision(
        "AIL", str(decision).upper(), f"agent:{payload['agent']}", comment=comment, failed=failed
    )


def _word(kind: str, payload: Mapping[str, Any], *, is_agent: bool) -> str:
    if kind == "hold_withdrawn":
        return "WITHDRAW"
    if kind == "hold_voted":
        return "APPROVE"
    if not is_agent:
        return str(payload["decision"])
    # An agent's hold is decided by `continue`, or by a replan, whose comment says so.
    return "REPLAN" if str(payload.get("comment", "")).startswith("replan: ") else "CONTINUE"


def _decision(kind: str, decision: str, actor: str, **known: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "decision": decision,
        "actor": actor,
        "reviewer": None,
        "hold_id": None,
        "node_id": None,
        "trigger_phase": None,
        "reason": "",
        "comment": "",
        "edited": False,
        "is_vote": False,
        "failed": False,
        **known,
    }
