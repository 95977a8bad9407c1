"""Add, change and delete approval policies; each change is logged as the admin logs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.contrib.admin.models import ADDITION, CHANGE, DELETION
from django.db import transaction
from django.http import Http404

from workflows.engine.plans.dag import ExternalActionTask, Plan
from workflows.engine.plans.validation import Problem
from workflows.executions.validation import InvalidRequest, check_groups
from workflows.models import ApprovalPolicy
from workflows.security_events.services import log_change

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def group_problems(groups: Sequence[str], quorum: int) -> tuple[Problem, ...]:
    """Return why these groups cannot decide with this quorum; raises ValueError if they are none.

    Both are valid fields of a review.
    """
    action = ExternalActionTask.model_validate(
        {
            "id": "a",
            "type": "external_action",
            "action": "a",
            "human_review": {"groups": groups, "quorum": quorum},
        }
    )
    try:
        check_groups(plan=Plan(tasks=(action,)))
    except InvalidRequest as invalid:
        return tuple(Problem("groups", each.code, each.message) for each in invalid.problems)
    return ()


def save_policy(
    *, actor: User, fields: Mapping[str, Any], policy: ApprovalPolicy | None = None
) -> ApprovalPolicy:
    """Create a policy, or change the given fields of `policy`.

    Raises django.core.exceptions.ValidationError or InvalidRequest, and Http404 for a policy that
    was deleted meanwhile.
    """
    with transaction.atomic():
        if policy is not None:
            lock_policy(policy)
        return _save(actor, fields, policy)


def lock_policy(policy: ApprovalPolicy) -> None:
    """Lock the row and read it again, in the caller's transaction; raises Http404 without one.

    Two editors who save at once would give different rules the same version, and the second would
    put back the fields that the first has changed.
    """
    rows = ApprovalPolicy.objects.select_for_update(no_key=True)
    try:
        policy.refresh_from_db(from_queryset=rows)
    except ApprovalPolicy.DoesNotExist:
        raise Http404 from None


def _save(actor: User, fields: Mapping[str, Any], policy: ApprovalPolicy | None) -> ApprovalPolicy:
    row = policy or ApprovalPolicy()
    changed = [name for name in fields if policy is None or getattr(row, name) != fields[name]]
    for name in changed:
        setattr(row, name, fields[name])
    if "rules" in changed:
        row.rules_version += 1
    row.full_clean()
    review = row.review()
    if problems := group_problems(review.groups, review.quorum):
        raise InvalidRequest(problems)
    row.save()
    if policy is None:
        log_change(actor=actor, row=row, flag=ADDITION, message=[{"added": {}}])
    elif changed:
        message = [{"changed": {"fields": changed}}]
        log_change(actor=actor, row=row, flag=CHANGE, message=message)
    return row


def delete_policy(*, actor: User, policy: ApprovalPolicy) -> None:
    """Delete a policy; the next longest pattern applies to its actions."""
    with transaction.atomic():
        log_change(actor=actor, row=policy, flag=DELETION)
        policy.delete()
