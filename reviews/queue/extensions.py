"""Extend the deadline of a hold."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from django.utils import timezone

from reviews.decisions.conflicts import conflict
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.rights import fresh_user, right_now
from reviews.decisions.services import Token, check_token, log_refusals, visible_hold
from workflows.common.schemas import FieldError
from workflows.engine.protocol.commands import ExtendHold
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.ports import StaleVersion
from workflows.engine.values.reasons import Reason
from workflows.executions import access
from workflows.executions.services import submit_command
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Seconds that one call may add, and seconds that the deadline may lie ahead.
MIN_SECONDS: Final = 60
MAX_SECONDS: Final = 30 * 86_400


@dataclass(frozen=True, slots=True)
class Extension:
    """The outcome of an extension.

    `outcome` is "applied", or "queued" while a worker holds the run; `expires_at` is the present
    deadline, `version` the execution's version.
    """

    hold_id: str
    execution_id: int
    outcome: str
    expires_at: datetime | None
    version: int


def extend(
    *, hold_id: str, user: User, seconds: float, source: str, token: Token | None = None
) -> Extension:
    """Move the deadline of an open hold `seconds` further, from where it stands.

    Raises HoldNotFound, NotAllowed, ReviewInvalid for seconds out of bounds, or Conflict when the
    hold is decided or has no deadline.
    """
    with log_refusals(hold_id, "extend_hold", user, source):
        check_token(token)
        person = fresh_user(user)
        hold = visible_hold(person, hold_id)
        _check(hold, person, seconds)
    try:
        result = submit_command(
            execution_id=hold.execution_id,
            command=ExtendHold(hold=hold.id, seconds=seconds),
            actor=access.actor_of(person),
            source=source,
        )
    except Refused as refusal:
        raise conflict(hold.id, refusal.code, refusal.reason) from None
    except StaleVersion:
        raise conflict(hold.id, "busy", Reason("run_is_busy_now")) from None
    hold.refresh_from_db(fields=["expires_at"])
    return Extension(
        hold.id, hold.execution_id, result.outcome, hold.expires_at, version=result.version
    )


def may_extend(hold: Hold, *, may_decide: bool) -> bool:
    """Whether a page offers one more hour: the hold is open and the limit allows it."""
    if hold.status != Hold.Status.OPEN or hold.expires_at is None or not may_decide:
        return False
    return hold.expires_at + timedelta(hours=1) <= _latest()


def _check(hold: Hold, person: User, seconds: float) -> None:
    right = right_now(person, hold)
    if hold.status != Hold.Status.OPEN:
        raise conflict(hold.id, "decided", Reason("hold_is_closed"))
    if not right.any:
        raise right.denied()
    if hold.expires_at is None:
        raise conflict(hold.id, "no_deadline", Reason("hold_without_deadline"))
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        message = f"must be between {MIN_SECONDS} and {MAX_SECONDS}"
        raise ReviewInvalid([FieldError("seconds", message)])
    if hold.expires_at + timedelta(seconds=seconds) > _latest():
        message = "would put the deadline more than 30 days ahead"
        raise ReviewInvalid([FieldError("seconds", message)])


def _latest() -> datetime:
    return timezone.now() + timedelta(seconds=MAX_SECONDS)
