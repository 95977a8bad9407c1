"""Bulk actions on holds; each hold has its own transaction, outcome and record.

Holds of high risk are never approved in bulk: a reviewer has to open them.  One transaction for all
holds would lock many executions and the audit chain at once, and two calls could deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from reviews.audit.history import BULK
from reviews.decisions import services, withdrawal
from reviews.decisions.conflicts import Conflict
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.rights import NotAllowed
from reviews.decisions.services import HoldNotFound, Token, visible_hold
from reviews.models import Decision
from workflows.common.number_parsing import parse_natural_number
from workflows.common.schemas import FieldError
from workflows.engine.protocol.commands import MAX_UNDO_SECONDS
from workflows.engine.values.reasons import Reason, reason_fields

from . import claims
from .filters import risk_of

if TYPE_CHECKING:
    from django.contrib.auth.models import User

Action = Literal["claim", "release", "assign", "approve", "reject", "request_changes", "withdraw"]
#: The actions of REST and the queue; the admin also requests changes.
ACTIONS: Final[tuple[Action, ...]] = (
    "claim", "release", "assign", "approve", "reject", "withdraw",
)  # fmt: skip
_DECISIONS: Final = {
    "approve": (Decision.APPROVE, "done_approved"),
    "reject": (Decision.REJECT, "done_rejected"),
    "request_changes": (Decision.REQUEST_CHANGES, "done_changes_requested"),
}
#: Maximum number of holds in one call.
MAX_HOLDS: Final = 100


@dataclass(frozen=True, slots=True)
class SelectedHold:
    """A hold and the version of its execution that the user saw."""

    hold_id: str
    version: int


def selected_hold(text: str) -> SelectedHold:
    """Parse `12-1@7`; a version that is not a number is one that nobody has seen."""
    hold_id, _, version = text.replace("\0", "").rpartition("@")
    number = parse_natural_number(version)
    return SelectedHold(hold_id, -1 if number is None else number)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome for one hold.

    `code` is done, not_found, not_allowed, high_risk, invalid, or the code of a conflict.
    `undo_until` (ISO 8601): the decision can be withdrawn until then; None when it cannot.
    """

    hold_id: str
    done: bool
    code: str
    message: str
    message_code: str = ""
    message_params: dict[str, Any] = field(default_factory=dict)
    record_id: int | None = None
    undo_until: str | None = None


@dataclass(frozen=True, slots=True)
class BulkStep:
    """A hold's outcome and, after a decision, the id and version of its execution."""

    outcome: Outcome
    moved: tuple[int, int] | None = None


#: Runs a step, or returns its stored result when the call is repeated.
Remember = Callable[[SelectedHold, Callable[[], BulkStep]], BulkStep]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The action on each hold; `to` is the assignee of an assignment.

    `undo_seconds`: how long each decision can be withdrawn; None for the default of pages.
    """

    action: Action
    comment: str = ""
    to: str = ""
    undo_seconds: float | None = 0


def apply_to_all(
    *,
    chosen: Sequence[SelectedHold],
    request: Request,
    user: User,
    token: Token | None = None,
    confirmed_at: datetime | None = None,
    remember: Remember = lambda _, step: step(),
) -> list[Outcome]:
    """Apply the action to each hold in turn; returns an outcome per hold, in order.

    Raises ReviewInvalid for an invalid call, before any hold is changed.
    """
    check(chosen, request)
    bulk = _Bulk(request, user, token, confirmed_at, remember)
    return [bulk.apply(each) for each in chosen]


def check(chosen: Sequence[SelectedHold], request: Request) -> None:
    """Raise ReviewInvalid for an invalid call."""
    errors = []
    if request.action not in (*ACTIONS, "request_changes"):
        errors.append(FieldError("action", f"must be one of {', '.join(ACTIONS)}"))
    if not 1 <= len(chosen) <= MAX_HOLDS:
        errors.append(FieldError("holds", f"must name between 1 and {MAX_HOLDS} reviews"))
    if len({each.hold_id for each in chosen}) != len(chosen):
        errors.append(FieldError("holds", "names one review twice"))
    if request.action == "assign" and not request.to:
        errors.append(FieldError("to", "must name a person"))
    if request.action == "reject" and not request.comment.strip():
        errors.append(FieldError("comment", "must give the reason; it is stored in every record"))
    if request.action == "request_changes" and not request.comment.strip():
        errors.append(FieldError("comment", "must say what should be changed"))
    if request.undo_seconds is not None and not 0 <= request.undo_seconds <= MAX_UNDO_SECONDS:
        errors.append(FieldError("undo_seconds", f"must be between 0 and {MAX_UNDO_SECONDS}"))
    if errors:
        raise ReviewInvalid(errors)


class _Bulk:
    def __init__(
        self,
        request: Request,
        user: User,
        token: Token | None,
        confirmed_at: datetime | None,
        remember: Remember,
    ) -> None:
        self._request = request
        self._user = user
        self._token = token
        self._confirmed_at = confirmed_at
        self._remember = remember
        # A decision changes the version of its run; its other holds are decided at the new one.
        self._moved: dict[int, tuple[int, int]] = {}

    def apply(self, chosen: SelectedHold) -> Outcome:
        step = self._remember(chosen, lambda: self._step(chosen))
        if step.moved:
            execution, version = step.moved
            seen, _ = self._moved.get(execution, (chosen.version, version))
            self._moved[execution] = (seen, version)
        return step.outcome

    def _step(self, chosen: SelectedHold) -> BulkStep:
        try:
            return self._do(chosen)
        except HoldNotFound:
            return _not_done(chosen, "not_found", Reason("not_found"))
        except NotAllowed as denied:
            return _not_done(chosen, "not_allowed", denied.reason)
        except Conflict as late:
            return _not_done(chosen, late.code, late.reason)
        except ReviewInvalid as invalid:
            first = invalid.errors[0]
            return _not_done(chosen, "invalid", f"{first.path} {first.message}".strip())

    def _do(self, chosen: SelectedHold) -> BulkStep:
        who = {"hold_id": chosen.hold_id, "user": self._user, "token": self._token}
        match self._request.action:
            case "claim":
                claims.claim(**who)  # type: ignore[arg-type]
                return _done(chosen, Reason("done_claimed"))
            case "release":
                released = claims.release(**who)  # type: ignore[arg-type]
                return _done(chosen, Reason("done_released" if released else "was_not_claimed"))
            case "assign":
                claim_made = claims.assign(**who, to=self._request.to)  # type: ignore[arg-type]
                name = claim_made.user.get_username()
                return _done(chosen, Reason("done_assigned", {"name": name}))
            case "withdraw":
                return self._withdraw(chosen)
        return self._decide(chosen)

    def _withdraw(self, chosen: SelectedHold) -> BulkStep:
        withdrawn = withdrawal.withdraw(
            hold_id=chosen.hold_id,
            user=self._user,
            comment=self._request.comment,
            source=BULK,
            token=self._token,
        )
        return _done(chosen, Reason("done_undone"), record_id=withdrawn.record.pk)

    def _decide(self, chosen: SelectedHold) -> BulkStep:
        hold = visible_hold(self._user, chosen.hold_id)
        decision, done = _DECISIONS[self._request.action]
        if decision == Decision.APPROVE and risk_of(hold) == "high":
            return _not_done(chosen, "high_risk", Reason("high_risk"))
        rests = self._request.undo_seconds
        seen, now = self._moved.get(hold.execution_id, (chosen.version, chosen.version))
        result = services.decide(
            services.DecisionRequest(
                hold_id=hold.id,
                user=self._user,
                decision=decision.value,
                version=now if seen == chosen.version else chosen.version,
                source=BULK,
                comment=self._request.comment,
                undo_seconds=services.undo_seconds_for(hold) if rests is None else rests,
                token=self._token,
                confirmed_at=self._confirmed_at,
            )
        )
        reason = Reason(done)
        if not result.complete:
            reason = Reason("more_approvals_needed")
        outcome = Outcome(
            hold.id,
            done=True,
            code="done",
            **reason_fields("message", reason),
            record_id=result.record.pk,
            undo_until=_iso(result.undo_until),
        )
        return BulkStep(outcome, (hold.execution_id, result.version))


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat().replace("+00:00", "Z") if moment else None


def _done(chosen: SelectedHold, reason: Reason, record_id: int | None = None) -> BulkStep:
    return BulkStep(
        Outcome(
            chosen.hold_id,
            done=True,
            code="done",
            **reason_fields("message", reason),
            record_id=record_id,
        )
    )


def _not_done(chosen: SelectedHold, code: str, reason: Reason | str) -> BulkStep:
    fields = reason_fields("message", reason)
    return BulkStep(Outcome(chosen.hold_id, done=False, code=code, **fields))
