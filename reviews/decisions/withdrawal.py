"""Withdraw a decision before it takes effect, or apply it afterwards.

A decision with an undo time is recorded at once, and the run waits.  Its author withdraws it, which
writes a record of its own, or the sweeper applies it once the time is over and no other hold of the
run is open.  Each is one guarded statement under the row lock of the run, so only one succeeds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from reviews.audit.denied_attempts import denied_attempts_recorded
from reviews.audit.records import DecisionEntry, write_record
from reviews.components.reasons import render_reason
from reviews.models import Decision, HumanReviewRecord
from workflows.engine.protocol.actors import SYSTEM, Actor
from workflows.engine.protocol.commands import SettleAnswer, WithdrawAnswer
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.ports import StaleVersion
from workflows.engine.protocol.state import HoldReason, load_state
from workflows.engine.protocol.status import TRANSITIONS, ExecutionStatus
from workflows.engine.values.reasons import Reason
from workflows.executions import access
from workflows.executions.services import CommandResult
from workflows.models import Execution, Hold
from workflows.permissions import tokens

from .conflicts import conflict
from .rights import NotAllowed, fresh_user, right_now
from .services import (
    Busy,
    Token,
    check_comment,
    check_token,
    log_refusals,
    retry_while_busy,
    submit_now,
    visible_hold,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User


logger = logging.getLogger(__name__)

_FINAL_STATUSES = [status.value for status in ExecutionStatus if not TRANSITIONS[status]]
TOO_LATE = Reason("too_late_to_undo")


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """A withdrawn `decision`, or a `vote` of a quorum; the hold is open again.

    `record` references the withdrawn record; `version` and `status` describe the run.
    """

    record: HumanReviewRecord
    hold_id: str
    execution_id: int
    what: str
    version: int
    status: str


@dataclass(frozen=True, slots=True)
class WithdrawalOffer:
    """What a user can withdraw now; `why_not` is set when their decision has taken effect."""

    what: str = ""
    why_not: Reason | None = None


# --- withdraw ----------------------------------------------------------------------------------


def withdraw(
    *, hold_id: str, user: User, comment: str = "", source: str, token: Token | None = None
) -> Withdrawal:
    """Withdraw the decision of `user` on a hold; an admin may withdraw anybody's.

    Raises HoldNotFound, NotAllowed, ReviewInvalid, or Conflict with the present state when the
    decision has taken effect or there is none; each is written to the command log.
    """
    with (
        log_refusals(hold_id, "withdraw_answer", user, source),
        denied_attempts_recorded(hold_id, user, Decision.WITHDRAW.value, source),
    ):
        check_token(token)
        check_comment(comment)
        return retry_while_busy(hold_id, lambda: _withdraw(hold_id, user, comment, source))


def _withdraw(hold_id: str, user: User, comment: str, source: str) -> Withdrawal:
    person = fresh_user(user)
    _lock(visible_hold(person, hold_id).execution_id)
    hold = visible_hold(person, hold_id)
    of = _decider_to_withdraw(person, hold)
    taken = HumanReviewRecord.objects.standing().filter(hold=hold, reviewer=of).latest("id")
    result = submit_now(
        hold, WithdrawAnswer(hold=hold.id, of=of), access.actor_of(person), source, None
    )
    record = _record(hold, taken, result, comment, person=person, source=source)
    what = "vote" if hold.status == Hold.Status.OPEN else "decision"
    return Withdrawal(record, hold.id, hold.execution_id, what, result.version, result.status)


def _lock(execution_id: int) -> None:
    """Lock the run until the transaction ends."""
    Execution.objects.select_for_update().only("pk").get(pk=execution_id)


def _decider_to_withdraw(person: User, hold: Hold) -> int:
    """Id of the decider whose decision this user may withdraw; raises NotAllowed or Conflict."""
    if hold.status == Hold.Status.OPEN:
        if person.pk not in hold.approver_ids:
            raise conflict(hold.id, "nothing_to_withdraw", Reason("not_decided_yet"))
    elif hold.undo_until is None:
        raise conflict(hold.id, "gone_on", TOO_LATE)
    elif hold.decided_by_id != person.pk:
        if access.ADMIN not in access.roles_of(person) or hold.decided_by_id is None:
            raise NotAllowed(Reason("not_your_decision", {"actor": hold.decided_by}), "not_yours")
        return hold.decided_by_id
    right = right_now(person, hold)
    if not right.any and right.code != "already_voted":
        raise right.denied()
    return person.pk


def withdrawal_offer(user: User, hold: Hold) -> WithdrawalOffer:
    """Return what a page offers; `withdraw` checks it again."""
    if hold.status == Hold.Status.OPEN:
        return WithdrawalOffer("vote" if user.pk in hold.approver_ids else "")
    if hold.undo_until is not None:
        mine = user.pk == hold.decided_by_id or access.ADMIN in access.roles_of(user)
        return WithdrawalOffer("decision" if mine else "")
    return WithdrawalOffer(why_not=TOO_LATE if user.pk == hold.decided_by_id else None)


def _record(
    hold: Hold,
    taken: HumanReviewRecord,
    result: CommandResult,
    comment: str,
    *,
    person: User | None,
    source: str,
) -> HumanReviewRecord:
    verdict = DecisionEntry(
        decision=Decision.WITHDRAW,
        actor=person.get_username() if person else SYSTEM.name,
        reviewer=person,
        source=source,
        comment=comment,
        version=result.version,
        withdraws=taken,
    )
    return write_record(hold, verdict)


# --- apply ---------------------------------------------------------------------------------


def due() -> QuerySet[Hold]:
    """Decided holds whose undo time is over, of runs without another open hold.

    The run cannot continue while another hold is open, so those decisions stay withdrawable; a
    decision that ends the run does not wait.
    """
    others = Hold.objects.filter(execution=OuterRef("execution"), status=Hold.Status.OPEN)
    ends_run = Q(decision=Decision.REJECT) & (
        Q(reason=HoldReason.NODE_REVIEW, on_reject="abort") | Q(reason=HoldReason.LAYER_APPROVAL)
    )
    rows = Hold.objects.filter(undo_until__lte=Now()).exclude(execution__status__in=_FINAL_STATUSES)
    return rows.filter(ends_run | ~Exists(others)).order_by("undo_until")


def due_later(hold: Hold) -> bool:
    """Whether a decision waits for other open holds of its run."""
    others = Hold.objects.filter(execution_id=hold.execution_id, status=Hold.Status.OPEN)
    return not _ends_run(hold) and others.exists()


def _ends_run(hold: Hold) -> bool:
    node = hold.reason == HoldReason.NODE_REVIEW and hold.on_reject == "abort"
    return hold.decision == Decision.REJECT and (node or hold.reason == HoldReason.LAYER_APPROVAL)


def settle_due(limit: int = 200) -> int:
    """Apply decisions whose undo time is over by the database's clock; returns their number."""
    rows = list(due().values_list("id", "execution_id")[:limit])
    return sum(settle(hold_id, execution_id) for hold_id, execution_id in rows)


def settle(hold_id: str, execution_id: int) -> bool:
    """Apply one decision; False when it was withdrawn or applied in the meantime."""
    try:
        with transaction.atomic():
            _lock(execution_id)
            hold = due().select_related("execution__workflow").filter(pk=hold_id).first()
            if hold is None:
                return False
            record = HumanReviewRecord.objects.standing().filter(hold=hold).latest("id")
            _carry_out(hold, record)
    except (StaleVersion, Busy) as error:
        logger.info("the decision on hold %s waits: %s", hold_id, error)
        return False
    return True


def _carry_out(hold: Hold, given: HumanReviewRecord) -> None:
    """Apply a decision; withdraw it with the reason if it may not be applied any more.

    Its author may have lost the right to it, or the run no longer accepts it.
    """
    by = _author(hold)
    try:
        _check_right_at_settlement(hold, given, by)
        with transaction.atomic():
            submit_now(hold, SettleAnswer(hold=hold.id), by, given.source, None)
    except (Refused, NotAllowed) as refusal:
        back = WithdrawAnswer(hold=hold.id, of=given.reviewer_id)
        result = submit_now(hold, back, SYSTEM, "time", None)
        _record(hold, given, result, refusal.message, person=None, source="time")


def _author(hold: Hold) -> Actor:
    """Return the author of the decision on a hold in its undo period."""
    open_hold = load_state(hold.execution.state).hold(hold.id)
    if open_hold is None or open_hold.answer is None:
        raise StaleVersion
    return open_hold.answer.by


def _check_right_at_settlement(hold: Hold, given: HumanReviewRecord, by: Actor) -> None:
    """Raise NotAllowed unless the author of a decision may still make it.

    The lock makes a deactivation wait until the decision has taken effect, or come before it.
    """
    accounts = get_user_model().objects.select_for_update(no_key=True)
    if by.id is not None:
        accounts.filter(pk=by.id).first()
    person = tokens.user_of(by)
    if person is None:
        raise NotAllowed(Reason("access_ended", {"actor": by.name}), "inactive")
    credential = access.credential_of(person)
    may_decide = credential is None or "decide" in credential.scopes
    if not may_decide or not access.can_see(person, hold.execution, hold.groups):
        raise NotAllowed(Reason("right_lost", {"actor": by.name}))
    right = right_now(person, hold)
    if not (right.approve if given.decision == Decision.APPROVE else right.reject):
        raise NotAllowed(Reason("right_lost", {"actor": by.name}), right.code)


def without_withdrawn(records: Iterable[HumanReviewRecord]) -> list[HumanReviewRecord]:
    """Drop withdrawn records of one hold, and the records of their withdrawal."""
    rows = list(records)
    withdrawn = {each.withdraws_id for each in rows}
    return [
        each
        for each in rows
        if each.pk not in withdrawn and each.decision != Decision.WITHDRAW.value
    ]


def withdrawal_context(user: User, hold: Hold) -> dict[str, Any] | None:
    """Return `d.undo`: what can be withdrawn and for how long; None when there is nothing to show.

    `seconds` is the time left, 0 while the run waits for another review.
    """
    offer = withdrawal_offer(user, hold)
    if not offer.what and not offer.why_not and hold.undo_until is None:
        return None
    waits = hold.undo_until is not None and due_later(hold)
    return {
        "what": offer.what,
        "label": _("Undo my approval") if offer.what == "vote" else _("Undo"),
        "why_not": render_reason(offer.why_not) if offer.why_not else "",
        "url": reverse("reviews:withdraw", args=(hold.execution_id, hold.id)),
        "until": hold.undo_until,
        "seconds": 0 if waits else _seconds_left(hold),
        "waits": waits,
        "rests": hold.undo_until is not None,
    }


def _seconds_left(hold: Hold) -> float:
    if hold.undo_until is None:
        return 0
    return round(max(0.0, (hold.undo_until - timezone.now()).total_seconds()), 1)
