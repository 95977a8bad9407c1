"""Decide and expire holds.

A decision and its audit record commit together.  REST, pages, bulk actions and MCP call these
functions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models.functions import Now

from reviews import conf
from reviews.audit.denied_attempts import denied_attempts_recorded
from reviews.audit.records import DecisionEntry, write_record
from reviews.models import ANSWERS, Decision, HumanReviewRecord, ReviewClaim
from reviews.queue.filters import risk_of
from workflows import conf as workflow_conf
from workflows.approvals.standing_answers import terms_errors
from workflows.common.schemas import FieldError
from workflows.engine.policy.standing_terms import StandingTerms
from workflows.engine.protocol.actors import SYSTEM, Actor
from workflows.engine.protocol.commands import (
    MAX_UNDO_SECONDS,
    ApprovalResponse,
    CheckpointResponse,
    ExpireHold,
    WithdrawAnswer,
)
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.ports import StaleVersion
from workflows.engine.protocol.state import GrantScope
from workflows.engine.values.reasons import Reason
from workflows.executions import access
from workflows.executions.access import can_see, visible_to
from workflows.executions.services import CommandResult, log_refusal, submit_command
from workflows.models import Execution, Hold
from workflows.permissions import step_up

from .conflicts import Conflict, conflict, not_as_shown, shown_digest
from .edits import Change, Edit, ReviewInvalid, check_filled_in, checked_edit, payload_schema
from .rights import NotAllowed, Right, fresh_user, lapsed_votes, right_now

if TYPE_CHECKING:
    from django.contrib.auth.models import User

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_COMMENT = 10_000
#: Seconds between attempts while a worker holds the run although a hold is open.
BUSY_WAITS = (0.05, 0.1, 0.2, 0.4, 0.8)


class HoldNotFound(Exception):
    """The hold does not exist, or the user may not see its run."""


class Token(Protocol):
    """The part of an API token that decisions read."""

    @property
    def scopes(self) -> Collection[str]: ...


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """The outcome of a decision.

    `version` and `status` describe the execution after the decision; `complete` is False for
    an approval while the quorum needs more.
    """

    record: HumanReviewRecord
    hold_id: str
    execution_id: int
    decision: str
    edited: bool
    version: int
    status: str
    complete: bool
    #: The decision can be withdrawn until then; None when it has taken effect.
    undo_until: datetime | None = None
    #: Allowed edits that may be mistakes.
    warnings: tuple[FieldError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRequest:
    """One person's decision about a hold, as REST, a page, a bulk action or MCP received it."""

    hold_id: str
    user: User
    #: APPROVE, REJECT or REQUEST_CHANGES.
    decision: str
    #: Version of the execution that the person saw; another present version is a conflict. None
    #: for a decision that is bound to what its person was shown, whatever else the run does.
    version: int | None = None
    #: Without a version: the digest of what was shown, see `conflicts.shown_digest`.
    shown: str = ""
    #: Where the decision was made, stored in the record: "rest", "web", "admin", "link" (of an
    #: e-mail), "slack", "bulk" or "mcp".
    source: str
    #: The change of an approval, see `edits.checked_edit`; None approves the payload as it is.
    edits: Any = None
    #: Approve with null in place of the output, which `edits` cannot express.
    set_output_null: bool = False
    comment: str = ""
    #: How far a granted permission reaches, and for how many seconds with the scope "until".
    grant_scope: GrantScope = "task"
    grant_seconds: float | None = None
    #: The terms under which the approval of an external action covers later ones.
    standing: StandingTerms | None = None
    #: Seconds for which the decision can be withdrawn; it takes effect afterwards.
    undo_seconds: float = 0
    #: The API token that sent the decision; None for a session.
    token: Token | None = None
    #: When the session's user last entered a second-factor code, see `permissions.step_up`.
    confirmed_at: datetime | None = None

    @property
    def change(self) -> Change:
        return Change(self.edits, set_output_null=self.set_output_null)


class Busy(Exception):
    """A worker holds the lease; a decision is never queued because it could not be recorded."""


# --- decisions ------------------------------------------------------------------------------------


def decide(request: DecisionRequest) -> DecisionResult:
    """Decide a hold and write the audit record, in one transaction.

    With `undo_seconds` the decision is recorded now and takes effect later, see `withdrawal`.

    Raises:
        HoldNotFound, NotAllowed, Conflict (with the present state), ReviewInvalid (with field
        errors; the hold stays open): each is written to the command log.
    """
    with (
        log_refusals(request.hold_id, "approval_response", request.user, request.source),
        denied_attempts_recorded(request.hold_id, request.user, request.decision, request.source),
    ):
        check_token(request.token)
        _check_fields(request)
        return retry_while_busy(request.hold_id, lambda: _decide(request))


def retry_while_busy(hold_id: str, attempt: Callable[[], T]) -> T:
    """Run `attempt` in a transaction; retry for a moment while a worker holds the run.

    Raises Conflict or ReviewInvalid for a command that the journal refuses.
    """
    for wait in (*BUSY_WAITS, None):
        try:
            with transaction.atomic():
                return attempt()
        except StaleVersion:
            raise conflict(hold_id, "stale", Reason("run_moved_on")) from None
        except Refused as refusal:
            raise _refused(hold_id, refusal) from None
        except Busy:
            if wait is not None:
                time.sleep(wait)
    raise conflict(hold_id, "busy", Reason("run_is_busy"))


def _logged(error: Exception) -> Reason | str:
    if isinstance(error, NotAllowed | Conflict):
        return error.reason
    return str(error) or Reason("hold_not_visible")


@contextmanager
def log_refusals(hold_id: str, kind: str, user: User, source: str) -> Iterator[None]:
    """Log a refusal from the block after its transaction has been rolled back."""
    try:
        yield
    except (HoldNotFound, NotAllowed, Conflict, ReviewInvalid) as error:
        logger.warning("%s: %s of %s refused: %s", user.get_username(), kind, hold_id, error)
        execution_id = (
            Hold.objects.filter(pk=hold_id).values_list("execution_id", flat=True).first()
        )
        if execution_id is not None:
            log_refusal(
                execution_id=execution_id,
                kind=kind,
                actor=access.actor_of(user),
                source=source,
                reason=_logged(error),
                outcome="invalid" if isinstance(error, ReviewInvalid) else "refused",
            )
        raise


def decide_command(
    *,
    execution: Execution,
    command: ApprovalResponse | CheckpointResponse,
    user: User,
    token: Token | None,
    source: str,
    version: int | None,
    confirmed_at: datetime | None = None,
) -> DecisionResult:
    """Decide the hold of an `approval_response` command as `user`; raises what `decide` raises.

    The commands endpoint and the MCP gateway call this through `HOLDPOINT["decision_service"]`.
    Without a version the decision applies to the present one.
    """
    hold = visible_hold(user, command.hold)
    if hold.execution_id != execution.pk:
        raise HoldNotFound
    return decide(
        DecisionRequest(
            hold_id=hold.id,
            user=user,
            decision=_decision_of(command),
            version=hold.execution.version if version is None else version,
            source=source,
            edits=command.edits,
            set_output_null=command.set_output_null,
            comment=command.feedback,
            grant_scope=command.grant_scope,
            grant_seconds=command.grant_seconds,
            standing=command.standing,
            undo_seconds=command.undo_seconds,
            token=token,
            confirmed_at=confirmed_at,
        )
    )


def _decision_of(command: ApprovalResponse | CheckpointResponse) -> str:
    if command.request_changes:
        if command.approved:
            raise ReviewInvalid([FieldError("approved", "must be false to request changes")])
        return Decision.REQUEST_CHANGES.value
    return (Decision.APPROVE if command.approved else Decision.REJECT).value


def _decide(request: DecisionRequest) -> DecisionResult:
    person = fresh_user(request.user)
    if request.version is None:
        # Two votes at once count one after the other.
        _lock_run(request.hold_id)
    hold = _hold_to_decide(person, request.hold_id)
    right = _checked_right(person, hold, request.decision)
    _check_confirmed(hold, request)
    _check_present(hold, request)
    _check_reason(hold, request)
    if hold.approvals and request.decision == Decision.APPROVE and _withdraw_lapsed_votes(hold):
        hold = _hold_to_decide(person, request.hold_id)
    change, edit = request.change, None
    if not change.is_empty:
        edit = checked_edit(hold, change, payload_schema(hold))
    if request.decision == Decision.APPROVE and edit is None:
        check_filled_in(hold)
    _check_standing(hold, request, right, edit.whole if edit else hold.payload)
    command = ApprovalResponse(
        hold=hold.id,
        approved=request.decision == Decision.APPROVE,
        request_changes=request.decision == Decision.REQUEST_CHANGES,
        edits=edit.sent.edits if edit else None,
        set_output_null=edit is not None and edit.sent.set_output_null,
        feedback=request.comment,
        grant_scope=request.grant_scope,
        grant_seconds=request.grant_seconds,
        standing=request.standing,
        undo_seconds=request.undo_seconds,
    )
    by, version = access.actor_of(person), hold.execution.version
    result = submit_now(hold, command, by, request.source, version)
    verdict = DecisionEntry(
        decision=request.decision,
        actor=person.get_username(),
        reviewer=person,
        source=request.source,
        comment=command.feedback,
        edited=edit is not None,
        modified=edit.whole if edit else None,
        version=result.version,
        on_behalf_of=right.on_behalf_of,
        on_behalf_of_id=right.on_behalf_of_id,
    )
    decided = _recorded(hold, verdict, result, edit)
    if not (request.undo_seconds and decided.complete):
        return decided
    hold.refresh_from_db(fields=["undo_until"])
    return replace(decided, undo_until=hold.undo_until)


def _withdraw_lapsed_votes(hold: Hold) -> bool:
    """Withdraw the votes of people who may not approve the hold any more; return if there are any.

    The locks make a deactivation wait until the quorum is counted, or come before it.
    """
    _lock_run(hold.pk)
    accounts = get_user_model().objects.filter(pk__in=[pk for pk in hold.approver_ids if pk])
    list(accounts.order_by("pk").select_for_update(no_key=True).values_list("pk", flat=True))
    lapsed, version = lapsed_votes(hold), hold.execution.version
    for vote, reason in lapsed:
        back = WithdrawAnswer(hold=hold.pk, of=vote.reviewer_id)
        version = submit_now(hold, back, SYSTEM, "time", version).version
        verdict = DecisionEntry(
            decision=Decision.WITHDRAW,
            actor=SYSTEM.name,
            reviewer=None,
            source="time",
            comment=reason.text,
            version=version,
            withdraws=vote,
        )
        write_record(hold, verdict)
    return bool(lapsed)


def undo_seconds_for(hold: Hold) -> float:
    """Seconds for which a decision made on a page can be undone; `hold.execution` is loaded."""
    own = hold.execution.policy.get("undo_seconds")
    return conf.undo_seconds() if own is None else float(own)


#: Sources of decisions that people make on pages.
_PAGE_SOURCES = ("web", "admin", "link", "slack")


def reason_required(hold: Hold, source: str) -> bool:
    """Whether a rejection needs a comment: the policy decides, by default only pages require one.

    Clients of the API from before the setting reject without a comment.
    """
    own = hold.execution.policy.get("require_rejection_reason")
    return source in _PAGE_SOURCES if own is None else bool(own)


def _check_reason(hold: Hold, request: DecisionRequest) -> None:
    if request.decision != Decision.REJECT or request.comment.strip():
        return
    if reason_required(hold, request.source):
        raise ReviewInvalid([FieldError("comment", "must give the reason for the rejection")])


def _checked_right(person: User, hold: Hold, decision: str) -> Right:
    right = right_now(person, hold)
    # A request for changes continues nothing, so the right to reject is enough.
    if right.approve if decision == Decision.APPROVE else right.reject:
        return right
    if right.code == "already_voted":
        raise conflict(hold.id, right.code, right.denied().reason)
    raise right.denied()


def _check_standing(hold: Hold, request: DecisionRequest, right: Right, decided: Any) -> None:
    """Raise ReviewInvalid for a standing answer that the policy of the action does not allow."""
    if request.standing is None:
        return
    if request.decision != Decision.APPROVE:
        raise ReviewInvalid([FieldError("standing", "is for approvals only")])
    if right.on_behalf_of:
        # It would outlast the absence.
        raise ReviewInvalid([FieldError("standing", "cannot be given for an absent person")])
    if errors := terms_errors(hold, request.standing, decided):
        raise ReviewInvalid(errors)


def needs_step_up(hold: Hold, standing: StandingTerms | None = None) -> bool:
    """Whether approving this hold needs a second-factor code (HOLDPOINT_STEP_UP).

    A standing answer needs one as the grant of a permission does.
    """
    mode = workflow_conf.step_up()
    is_high = risk_of(hold) == "high" or standing is not None
    return mode == "all" or (mode == "high_risk" and is_high)


def _check_confirmed(hold: Hold, request: DecisionRequest) -> None:
    """Raise NotAllowed("step_up") for an approval without the confirmation the setting requires."""
    if request.decision != Decision.APPROVE or not needs_step_up(hold, request.standing):
        return
    if request.token is not None:
        if step_up.SCOPE not in request.token.scopes:
            raise NotAllowed(Reason("approval_needs_scope", {"scope": step_up.SCOPE}), "step_up")
    elif not step_up.is_recent(request.confirmed_at):
        raise NotAllowed(Reason("confirm_first"), "step_up")


def _recorded(
    hold: Hold, verdict: DecisionEntry, result: CommandResult, edit: Edit | None
) -> DecisionResult:
    record = write_record(hold, verdict)
    complete = verdict.decision != Decision.APPROVE or len(hold.approvals) + 1 >= hold.quorum
    if complete:
        _end_claim(hold)
    return DecisionResult(
        record=record,
        hold_id=hold.id,
        execution_id=hold.execution_id,
        decision=verdict.decision,
        edited=edit is not None,
        version=result.version,
        status=result.status,
        complete=complete,
        warnings=edit.warnings if edit else (),
    )


def _end_claim(hold: Hold) -> None:
    ReviewClaim.objects.filter(hold=hold).delete()


def submit_now(
    hold: Hold, command: Any, actor: Actor, source: str, version: int | None
) -> CommandResult:
    """Apply a command now, in the caller's transaction.

    Raises Busy while a worker holds the run, StaleVersion or Refused.
    """
    result = submit_command(
        execution_id=hold.execution_id,
        command=command,
        actor=actor,
        source=source,
        version=version,
    )
    if result.outcome != "applied":
        raise Busy
    return result


def check_token(token: Token | None) -> None:
    """Raise NotAllowed for a token without the scope to decide; None stands for a session."""
    if token is not None and "decide" not in token.scopes:
        raise NotAllowed(Reason("scope_missing", {"scope": "decide"}), "scope")


_WITHOUT_EDITS = {
    Decision.REJECT: "a rejection takes no edits",
    Decision.REQUEST_CHANGES: "a request for changes takes no edits",
}


def _check_fields(request: DecisionRequest) -> None:
    decision, errors = request.decision, []
    if decision not in ANSWERS:
        errors.append(FieldError("decision", f"must be {' or '.join(ANSWERS)}"))
    elif decision in _WITHOUT_EDITS and not request.change.is_empty:
        path = "set_output_null" if request.change.set_output_null else "edits"
        errors.append(FieldError(path, _WITHOUT_EDITS[Decision(decision)]))
    if decision == Decision.REQUEST_CHANGES and not request.comment.strip():
        errors.append(FieldError("comment", "must say what should be changed"))
    if not 0 <= request.undo_seconds <= MAX_UNDO_SECONDS:
        errors.append(FieldError("undo_seconds", f"must be between 0 and {MAX_UNDO_SECONDS}"))
    errors += _comment_errors(request.comment)
    if errors:
        raise ReviewInvalid(errors)


def check_comment(comment: str) -> None:
    """Raise ReviewInvalid for a comment that is too long or cannot be stored."""
    if errors := _comment_errors(comment):
        raise ReviewInvalid(errors)


def _comment_errors(comment: str) -> list[FieldError]:
    errors = []
    if len(comment) > MAX_COMMENT:
        errors.append(FieldError("comment", f"must have at most {MAX_COMMENT} characters"))
    if "\0" in comment or not _is_unicode(comment):
        errors.append(FieldError("comment", "has a character that cannot be stored"))
    return errors


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _lock_run(hold_id: str) -> None:
    """Lock the run of a hold until the transaction ends."""
    runs = Execution.objects.filter(holds=hold_id).select_for_update(of=("self",))
    runs.values_list("pk").first()


def _check_present(hold: Hold, request: DecisionRequest) -> None:
    if hold.status != Hold.Status.OPEN:
        raise conflict(hold.id, "decided", Reason("hold_is_closed"))
    if request.version is None and request.shown != shown_digest(hold):
        raise not_as_shown(hold)
    if request.version not in (None, hold.execution.version):
        raise conflict(hold.id, "stale", Reason("run_moved_on"))


def _refused(hold_id: str, refusal: Refused) -> Conflict | ReviewInvalid:
    if refusal.code in ("no_edits", "bad_edits", "nothing_left"):
        errors = [FieldError(each.path, each.message) for each in refusal.problems]
        return ReviewInvalid(errors or [FieldError("edits", refusal.message)])
    if refusal.code in ("no_changes", "no_more_changes"):
        return ReviewInvalid([FieldError("decision", refusal.message)])
    if refusal.code == "no_standing_answer":
        return ReviewInvalid([FieldError("standing", refusal.message)])
    if refusal.code == "bad_scope":
        return ReviewInvalid([FieldError("grant_scope", refusal.message)])
    return conflict(hold_id, refusal.code, refusal.reason)


def _hold_to_decide(person: User, hold_id: str) -> Hold:
    """Return the hold without the large columns that no decision reads; raises HoldNotFound."""
    rows = Hold.objects.select_related("execution").defer(*_LARGE)
    hold = rows.filter(pk=hold_id).first()
    if hold is None or not can_see(person, hold.execution, hold.groups):
        raise HoldNotFound
    return hold


#: Columns of an execution that no decision reads.
_LARGE = ("execution__state", "execution__context", "execution__inputs")


def visible_hold(user: User, hold_id: str) -> Hold:
    """Return a hold of an execution that `user` may see, with execution and workflow.

    Raises HoldNotFound.
    """
    return visible_holds(user, hold_id)[0]


def visible_holds(user: User, *hold_ids: str) -> list[Hold]:
    """Return `visible_hold` of each id, in one query."""
    rows = Hold.objects.select_related("execution__workflow").filter(pk__in=hold_ids)
    holds = {hold.pk: hold for hold in rows if can_see(user, hold.execution, hold.groups)}
    try:
        return [holds[each] for each in hold_ids]
    except KeyError:
        raise HoldNotFound from None


def hold_of_node(user: User, execution_id: int, node_id: str) -> str:
    """Return the id of the node's open hold, or of its latest one; raises HoldNotFound."""
    holds = Hold.objects.filter(
        execution_id=execution_id, task_id=node_id, execution__in=visible_to(user)
    ).exclude(task_id="")
    rows = list(holds.order_by("opened_seq").values_list("id", "status"))
    if not rows:
        raise HoldNotFound
    still_open = [hold_id for hold_id, status in rows if status == Hold.Status.OPEN]
    return still_open[0] if still_open else rows[-1][0]


# --- timeouts -------------------------------------------------------------------------------------


def expire_due(limit: int = 200) -> int:
    """Expire overdue holds by the database's clock; returns their number."""
    overdue = Hold.objects.filter(status=Hold.Status.OPEN, expires_at__lte=Now())
    ids = list(overdue.order_by("expires_at").values_list("id", flat=True)[:limit])
    return sum(expire(hold_id) for hold_id in ids)


def expire(hold_id: str) -> bool:
    """Apply a hold's `on_timeout` and record it; False when it is no longer overdue."""
    try:
        with transaction.atomic():
            overdue = Hold.objects.filter(status=Hold.Status.OPEN, expires_at__lte=Now())
            hold = overdue.select_related("execution__workflow").filter(pk=hold_id).first()
            if hold is None:
                return False
            result = submit_now(hold, ExpireHold(hold=hold.id), SYSTEM, "time", None)
            record_timeout(hold, result.version)
    except (StaleVersion, Refused, Busy) as error:
        logger.info("hold %s did not expire: %s", hold_id, error)
        return False
    return True


def record_timeout(hold: Hold, version: int) -> HumanReviewRecord | None:
    """Record a timeout, in the caller's transaction; None for a hold that an agent decides.

    `version` is the execution's version right after the expiry.
    """
    if hold.decider != "human":
        return None
    _end_claim(hold)
    approves = hold.on_timeout == "approve"
    verdict = DecisionEntry(
        decision=Decision.APPROVE if approves else Decision.REJECT,
        actor=SYSTEM.name,
        reviewer=None,
        source="time",
        comment="nobody decided in time",
        version=version,
    )
    return write_record(hold, verdict)
