"""The decisions of people and agents in an execution, read from its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .actors import Actor
from .state import HoldReason

#: Kinds of events that are decisions.  `execution_aborted` is one unless a decision caused it.
DECISION_KINDS: Final = (
    "hold_voted",
    "hold_answered",
    "hold_withdrawn",
    "hold_decided",
    "agent_decided",
    "agent_failed",
    "execution_aborted",
)
#: Kinds of decisions that can abort a run: an abort recorded right after them is their consequence.
ABORT_CAUSES: Final = ("hold_decided", "hold_answered", "agent_decided")

_AGENTS: Final = (HoldReason.LAYER_VALIDATION.value, HoldReason.AGENT_DECISION.value)


def is_decision(kind: str, payload: Mapping[str, Any]) -> bool:
    """Return whether a stored event is a decision, and not the consequence of an earlier one."""
    if kind == "hold_decided":
        # The decision was listed when it was made (`hold_answered`); this event ends its undo time.
        return not payload.get("answered")
    # The hold of an external agent that timed out is decided by a separate event.
    return kind in DECISION_KINDS and not (kind == "agent_failed" and payload.get("hold_id"))


def decision_of(
    kind: str, payload: Mapping[str, Any], actor: Actor, *, for_agent: bool = False
) -> dict[str, Any]:
    """Return a stored decision event as a decision.

    `type` is HIL for people and AIL for agents; `edited` says whether the reviewer changed the
    payload.  Set `for_agent` if the run was aborted while it waited for an agent.
    """
    if kind in ("agent_decided", "agent_failed"):
        return _of_agent(kind, payload)
    if kind == "execution_aborted":
        return _decision(
            "AIL" if for_agent else "HIL", "ABORT", actor.name, comment=payload["reason"]
        )
    reason = str(payload.get("reason", ""))
    is_agent = reason in _AGENTS
    return _decision(
        "AIL" if is_agent else "HIL",
        _word(kind, payload, is_agent=is_agent),
        actor.name,
        reviewer=reviewer_of(kind, payload, actor),
        hold_id=payload["hold_id"],
        node_id=payload.get("task_id"),
        trigger_phase=payload.get("phase"),
        reason=reason,
        comment=payload.get("comment", ""),
        edited=bool(payload.get("edited")),
        is_vote=kind == "hold_voted" or payload.get("what") == "vote",
    )


def reviewer_of(kind: str, payload: Mapping[str, Any], actor: Actor) -> str | None:
    """Return the name of the person who decided a hold; None for an agent or another event."""
    if kind not in ("hold_voted", "hold_answered", "hold_withdrawn", "hold_decided"):
        return None
    by_person = not payload.get("by_timeout") and payload.get("reason") not in _AGENTS
    return actor.name if by_person and actor.is_user else None


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
    # An agent's hold is decided by `continue` or by a replan; a replan's comment starts with it.
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
