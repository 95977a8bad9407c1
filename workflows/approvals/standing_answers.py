"""Standing answers: which an approval may give, and which covers an action that is asked.

A standing answer is a grant with the scope `standing`.  It is bound to the agent as it is
authenticated: the person and the token that asked, besides the name that the agent states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import F
from django.db.models.functions import Coalesce, Now

from workflows.common.schemas import FieldError
from workflows.engine.plans.dag import ExternalActionTask
from workflows.engine.plans.risk import RISKS
from workflows.engine.policy.standing_terms import (
    USES,
    Rule,
    StandingTerms,
    StandingUse,
    UpTo,
    covers,
    is_number,
    parse_rule,
    sums_after,
)
from workflows.engine.protocol.status import TaskStatus
from workflows.engine.values.reasons import Reason
from workflows.executions import access
from workflows.models import ApprovalPolicy, Grant, Hold, TaskAttempt
from workflows.permissions.grants import IN_FORCE

from .policies import ActionPolicy, execution_policy
from .selectors import action_of

if TYPE_CHECKING:
    from django.contrib.auth.models import User


# --- giving ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Offer:
    """Whether the approval of a hold may cover later actions.

    `refusal` says why not; `max_hours` is the limit of the policy.
    """

    refusal: Reason | None
    max_hours: int = 0


def offer_of(hold: Hold) -> Offer:
    """Return what the policy allows for the hold; `hold.execution` is loaded."""
    if not hold.stated_risk:
        # Only external actions have one.
        return Offer(Reason("standing_before_actions"))
    task = action_of(hold.execution)
    row = ActionPolicy.of(task.action).row
    refusal = _refusal(row, task, hold.quorum)
    if refusal is None and hold.execution.approval.token_id is None:
        refusal = Reason("standing_needs_token")
    return Offer(refusal, row.standing_max_hours if row and refusal is None else 0)


def _refusal(row: ApprovalPolicy | None, task: ExternalActionTask, quorum: int) -> Reason | None:
    """Return why the policy takes no standing answer for the action; None if it takes one."""
    if task.is_executed:
        return Reason("standing_before_actions")
    if row is None or not row.allows_standing_answers:
        return Reason("standing_not_allowed")
    if quorum > 1:
        return Reason("standing_without_quorum")
    if task.risk == "high" and not row.standing_high_risk:
        return Reason("standing_not_high_risk", {"policy": row.pattern})
    return None


def terms_errors(hold: Hold, terms: StandingTerms, decided: Any) -> list[FieldError]:
    """Return why the approval of `decided`, the arguments, cannot have these terms."""
    offer = offer_of(hold)
    if offer.refusal is not None:
        return [FieldError("standing", offer.refusal.text)]
    errors = list(_rule_errors(terms.arguments, decided))
    if terms.seconds > offer.max_hours * 3600:
        message = f"the policy allows at most {offer.max_hours} hours"
        errors.append(FieldError("standing.seconds", message))
    return errors


def _rule_errors(rules: Mapping[str, Rule], decided: Mapping[str, Any]) -> Iterator[FieldError]:
    for name, rule in rules.items():
        path = f"standing.arguments.{name}"
        if name not in decided:
            yield FieldError(path, "the action has no such argument")
        elif isinstance(rule, UpTo) and not is_number(decided[name]):
            yield FieldError(path, "only a number can be limited")


# --- using ----------------------------------------------------------------------------------------


def use_standing_answer(
    *, actor: User, row: ApprovalPolicy | None, task: ExternalActionTask, agent: str
) -> StandingUse | None:
    """Return the standing answer that covers the action, and count its use; None without one.

    Runs in the transaction that asks.  The lock orders it before or after a revocation.  The
    policy `row` and the rights of the giver are checked as they are now.  A session has none: the
    answers of a deleted token, which have lost it, would cover the person's sessions.
    """
    review, credential = task.human_review, access.credential_of(actor)
    if credential is None:
        return None
    if row is None or review is None or review.always or _refusal(row, task, review.quorum):
        return None
    known = Grant.objects.filter(
        IN_FORCE,
        scope=Grant.Scope.STANDING,
        resource=task.action,
        granted_at__gt=Now() - timedelta(hours=row.standing_max_hours),
        execution__approval__owner=actor.pk,
        execution__approval__token=credential.token_id,
        execution__approval__agent=agent,
        execution__approval__risk__in=RISKS[RISKS.index(task.risk) :],
        # Answers of an earlier release have no number of their own.
        uses__lt=Coalesce("max_uses", USES),
    )
    # The lock orders uses, so that none of them exceeds the number or a sum.
    for grant in known.select_for_update(of=("self",)).order_by("pk"):
        sums = _sums_after(grant, task)
        if sums is not None and _may_still_approve(grant, actor, task):
            rows = Grant.objects.filter(pk=grant.pk)
            rows.update(uses=F("uses") + 1, sums=sums, last_used_at=Now())
            end = grant.expires_at.isoformat() if grant.expires_at else ""
            return StandingUse(grant=str(grant.pk), given_by=grant.granted_by, expires_at=end)
    return None


def _sums_after(grant: Grant, task: ExternalActionTask) -> dict[str, str] | None:
    """Return the sums of the grant after this action; None if it does not cover the action."""
    rules = {name: parse_rule(rule) for name, rule in (grant.arguments or {}).items()}
    done = TaskAttempt.objects.filter(
        execution=grant.execution_id, settled=True, status=TaskStatus.SUCCEEDED.value
    )
    approved = done.order_by("-attempt").values_list("inputs", flat=True).first()
    if not isinstance(approved, dict) or not covers(rules, approved, task.arguments):
        return None
    return sums_after(rules, grant.sums, task.arguments)


def _may_still_approve(grant: Grant, actor: User, task: ExternalActionTask) -> bool:
    """Whether the giver could approve this action now: active, in its groups, not its asker."""
    giver = access.read_user(grant.granted_by_id) if grant.granted_by_id is not None else None
    if giver is None or not giver.is_active or task.human_review is None:
        return False
    if giver.pk == actor.pk and execution_policy(task, ActionPolicy(None)).four_eyes:
        return False
    groups = access.groups_of(giver)
    deciding = (groups & set(task.human_review.groups)) - access.NON_DECIDING_ROLES
    return bool(deciding) and access.AUDITOR not in groups
