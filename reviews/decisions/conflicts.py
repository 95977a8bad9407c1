"""What somebody who came too late is told: where the run stands now, and who decided what."""

from __future__ import annotations

from typing import Any

from reviews.models import HumanReviewRecord, ReviewClaim
from workflows.models import Hold


class Conflict(Exception):
    """The answer came too late, or another one was first.

    `state` is the present one: id, status and version of the execution, its open holds[], and of
    the hold in question hold_id, hold_status, undo_until, decided[] (who decided what), claimed_by.
    """

    def __init__(self, code: str, message: str, state: dict[str, Any]) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.state = state


def conflict(hold_id: str, code: str, message: str) -> Conflict:
    """The conflict about a hold, with the state read now."""
    return Conflict(code, message, present_state(hold_id))


def present_state(hold_id: str) -> dict[str, Any]:
    """The state of a hold and its execution as JSON; {} when the hold does not exist."""
    hold = Hold.objects.select_related("execution").filter(pk=hold_id).first()
    if hold is None:
        return {}
    execution = hold.execution
    others = execution.holds.filter(status=Hold.Status.OPEN).order_by("opened_seq")
    records = HumanReviewRecord.objects.standing().filter(hold=hold).order_by("id")
    claim = ReviewClaim.objects.select_related("user").filter(hold=hold).first()
    return {
        "id": str(execution.pk),
        "status": execution.status,
        "version": execution.version,
        "hold_id": hold.id,
        "hold_status": hold.status,
        "undo_until": hold.undo_until.isoformat() if hold.undo_until else None,
        "holds": [
            {"id": other.id, "node_id": other.task_id, "trigger_phase": other.phase}
            for other in others
        ],
        "decided": [decided(record) for record in records],
        "claimed_by": claim.user.get_username() if claim else None,
    }


def decided(record: HumanReviewRecord) -> dict[str, Any]:
    """Who decided what, without the payload."""
    return {
        "decision": record.decision,
        "by": record.actor,
        "at": record.reviewed_at.isoformat(),
        "edited": record.is_edited,
        "comment": record.comment,
    }
