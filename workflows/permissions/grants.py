"""Grants of permissions: which are in force, who may grant how much, and revocation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from workflows import conf
from workflows.engine.policy.permissions import NAMED, PermissionSet, admits
from workflows.engine.protocol.decide import Refused
from workflows.engine.values.reasons import Reason
from workflows.executions import access
from workflows.models import Grant
from workflows.security_events.grants import record_revoked

from . import deny_list

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Grants that are neither revoked nor expired, by the database's clock.
IN_FORCE = Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=Now()))

_FINAL = ("COMPLETED", "FAILED", "ABORTED")
#: Grants for a task or an execution end with the execution.
SPENT = Q(scope__in=("task", "execution"), execution__status__in=_FINAL)

_FOLDER_GRANTERS = frozenset({access.OPERATOR, access.ADMIN})
_REVOKERS = frozenset({access.OPERATOR, access.ADMIN})


def visible_grants(user: User) -> QuerySet[Grant]:
    """Return the grants of the executions that the user may see, newest first."""
    return (
        access.filter_visible(Grant.objects.all(), user)
        .select_related("execution__approval__owner", "capability", "workflow")
        .order_by("-pk")
    )


def in_force(user: User) -> QuerySet[Grant]:
    """Return the grants that a task may still use."""
    return visible_grants(user).filter(IN_FORCE).exclude(SPENT)


def is_in_force(grant: Grant) -> bool:
    """Whether a task may still use the grant."""
    return Grant.objects.filter(IN_FORCE, pk=grant.pk).exclude(SPENT).exists()


# --- who may grant --------------------------------------------------------------------------------


def missing_permissions(payload: Mapping[str, Any]) -> PermissionSet:
    """Return the permissions that an escalation requests on top of the task's own."""
    requested = PermissionSet.model_validate(payload["requested"])
    return requested.difference(PermissionSet.model_validate(payload["current"]))


def may_grant(groups: Collection[str], need: PermissionSet) -> bool:
    """Whether one of these groups may grant `need`; see the setting `grant_ceilings`.

    An unknown name in the setting grants nothing; a system check reports it.  No group may grant
    what the deny list covers.
    """
    if deny_list.problem_of(need):
        return False
    known = (NAMED[name] for name in ceilings_of(groups) if name in NAMED)
    return any(admits(ceiling, need) for ceiling in known)


def may_grant_folders(groups: Collection[str]) -> bool:
    """Whether these groups may grant access to a folder and everything below it."""
    return not _FOLDER_GRANTERS.isdisjoint(groups)


def ceilings_of(groups: Collection[str]) -> tuple[str, ...]:
    """Return the named sets up to which members of these groups may grant."""
    ceilings = conf.grant_ceilings()
    other = ceilings.get("*", "minimal")
    return tuple(dict.fromkeys(ceilings.get(group, other) for group in sorted(groups)))


# --- who may select permission sets in plans ------------------------------------------------------


def selectable_sets(groups: Collection[str]) -> tuple[PermissionSet, ...]:
    """Return the sets up to which members of these groups may set a task's permissions in a plan.

    They come from the setting `start_ceilings`, in which unknown names are ignored.
    """
    ceilings = conf.start_ceilings()
    other = ceilings.get("*", "minimal")
    names = dict.fromkeys(ceilings.get(group, other) for group in sorted(groups))
    return tuple(NAMED[name] for name in names if name in NAMED) or (NAMED["minimal"],)


# --- revocation -----------------------------------------------------------------------------------


def may_revoke(user: User, grant: Grant) -> bool:
    """Whether the user may revoke a grant: operators, admins and the user who granted it."""
    return bool(access.roles_of(user) & _REVOKERS) or grant.granted_by_id == user.pk


def revoke(*, grant: Grant, user: User) -> Grant:
    """Revoke a grant at once: running tasks that use it are stopped, later ones request it again.

    Raises Refused if the user may not revoke it, or if it is revoked already.
    """
    if not may_revoke(user, grant):
        raise Refused("not_allowed", Reason("may_not_revoke"))
    if not end_grants(Grant.objects.filter(pk=grant.pk, revoked_at=None), by=user):
        grant.refresh_from_db()
        raise Refused("revoked", Reason("grant_revoked", {"actor": grant.revoked_by}))
    grant.refresh_from_db()
    return grant


def end_grants(rows: QuerySet[Grant], *, by: User) -> int:
    """Revoke these grants and return how many there were.

    The locks come first: `revoked_at` is then after the last use of a grant that was in use.
    """
    with transaction.atomic():
        grants = list(rows.select_for_update(of=("self",)).order_by("pk"))
        Grant.objects.filter(pk__in=[each.pk for each in grants]).update(
            revoked_at=Now(), revoked_by=by.get_username()
        )
        for grant in grants:
            record_revoked(grant, by)
    return len(grants)
