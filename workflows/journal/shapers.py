"""Rows of `Shaper`: who shaped an execution in a step, and in which way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workflows.engine.policy.policies import Policy
from workflows.engine.protocol import events as ev
from workflows.engine.protocol.state import HoldReason
from workflows.models import Shaper

from .projections import Recorded

Row = dict[str, Any]


def shaper_rows(recorded: Sequence[Recorded], policy: Policy) -> list[Row]:
    """Return a row for each event of a user that shapes the execution."""
    is_fork = bool(recorded) and isinstance(recorded[0].event, ev.ExecutionForked)
    rows: list[Row] = []
    for before, item in zip([None, *recorded], recorded, strict=False):
        if item.actor.id is None:
            continue
        if is_fork and isinstance(item.event, ev.MessageAdded):
            continue  # copied from the parent
        way = way_of(item, before, policy)
        if way is not None:
            since = item.state.version if way is Shaper.Way.EDIT else 0
            rows.append({"user_id": item.actor.id, "way": way.value, "since": since})
    return rows


def way_of(item: Recorded, before: Recorded | None, policy: Policy) -> Shaper.Way | None:
    """Return how the actor of an event shapes the execution; None if they do not.

    An accepted plan change, and its context, are the work of the person who asked for it, and not
    of the person who approved it; the comment of a request for changes is no message to the agent.
    `before` is the event right before it in the same step.
    """
    decision = _decision_before(item, before)
    match item.event:
        case ev.PlanRevised(hold_id=None):
            return Shaper.Way.PLAN
        case ev.PlanProposed():
            return Shaper.Way.REPLAN
        case ev.LayerSkipRequested():
            return Shaper.Way.SKIP
        case ev.AgentRequested():
            return Shaper.Way.ASKED
        case ev.HoldDecided(decision="APPROVE", edited=True):
            return Shaper.Way.EDIT
        case ev.ContextUpdated() if not _accepts_plan_change(decision):
            return Shaper.Way.CONTEXT
        case ev.MessageAdded() if policy.ail.enabled and not _requests_changes(decision):
            return Shaper.Way.ASKED
    return None


def _decision_before(item: Recorded, before: Recorded | None) -> ev.HoldDecided | None:
    """Return the decision of the same user right before the event; None if there is none."""
    if before is None or before.actor.id != item.actor.id:
        return None
    return before.event if isinstance(before.event, ev.HoldDecided) else None


def _accepts_plan_change(decision: ev.HoldDecided | None) -> bool:
    return (
        decision is not None
        and decision.decision == "APPROVE"
        and decision.reason is HoldReason.REPLAN_REVIEW
    )


def _requests_changes(decision: ev.HoldDecided | None) -> bool:
    return decision is not None and decision.decision == "REQUEST_CHANGES"
