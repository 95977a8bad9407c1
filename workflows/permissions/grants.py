"""The ledger of grants: what is in force, who may grant how much, taking one back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from workflows import conf
from workflows.engine.decide import Refused
from workflows.engine.permissions import NAMED, PermissionSet, admits
from workflows.executions import access
from workflows.models import Grant

from . import deny_list

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Grants that count: not taken back, and their time not over by the database's clock.
IN_FORCE = Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=Now()))

_FINAL = ("COMPLETED", "FAILED", "ABORTED")
#: A task's or a run's grant is spent when the run is over.
_SPENT = Q(scope__in=("task", "execution"), execution__status__in=_FINAL)

_FOLDER_GRANTERS = frozenset({access.OPERATOR, access.ADMIN})
_REVOKERS = frozenset({access.OPERATOR, access.ADMIN})


def visible_grants(user: User) -> QuerySet[Grant]:
    """Every grant of the executions that the user may see, the latest first."""
    return (
        access.filter_visible(Grant.objects.all(), user)
        .select_related("execution", "capability", "workflow")
        .order_by("-pk")
    )


def in_force(user: User) -> QuerySet[Grant]:
    """Those that some task could still use."""
    return visible_grants(user).filter(IN_FORCE).exclude(_SPENT)


def is_in_force(grant: Grant) -> bool:
    """Whether a task could still use it."""
    return Grant.objects.filter(IN_FORCE, pk=grant.pk).exclude(_SPENT).exists()


# --- who may grant --------------------------------------------------------------------------------


def missing_permissions(payload: Mapping[str, Any]) -> PermissionSet:
    """What an escalation's hold asks for on top of what the task has."""
    requested = PermissionSet.model_validate(payload["requested"])
    return requested.difference(PermissionSet.model_validate(payload["current"]))


def may_grant(groups: Collection[str], need: PermissionSet) -> bool:
    """Whether one of these groups may let `need` pass; see the setting `grant_ceilings`.

    A name there that no set has lets nothing pass; a system check names it. What the deny list
    covers nobody grants.
    """
    if deny_list.problem_of(need):
        return False
    known = (NAMED[name] for name in ceilings_of(groups) if name in NAMED)
    return any(admits(ceiling, need) for ceiling in known)


def may_grant_folders(groups: Collection[str]) -> bool:
    """Whether these groups may grant a folder with everything below it."""
    return not _FOLDER_GRANTERS.isdisjoint(groups)


def ceilings_of(groups: Collection[str]) -> tuple[str, ...]:
    """The named sets up to which members of these groups grant, each once."""
    ceilings = conf.grant_ceilings()
    other = ceilings.get("*", "minimal")
    return tuple(dict.fromkeys(ceilings.get(group, other) for group in sorted(groups)))


# --- who may choose -------------------------------------------------------------------------------


def selectable_sets(groups: Collection[str]) -> tuple[PermissionSet, ...]:
    """The sets up to which members of these groups choose a task's permission set in a plan.

    From the setting `start_ceilings`. A name there that no set has lets nothing be chosen.
    """
    ceilings = conf.start_ceilings()
    other = ceilings.get("*", "minimal")
    names = dict.fromkeys(ceilings.get(group, other) for group in sorted(groups))
    return tuple(NAMED[name] for name in names if name in NAMED) or (NAMED["minimal"],)


# --- taking back ----------------------------------------------------------------------------------


def may_revoke(user: User, grant: Grant) -> bool:
    """Operators, admins and whoever gave it."""
    return bool(access.roles_of(user) & _REVOKERS) or grant.granted_by == user.get_username()


def revoke(*, grant: Grant, user: User) -> Grant:
    """Take a grant back, at once: whatever runs with it is stopped, whatever comes asks again.

    Raises Refused for somebody who may not, and for a grant that was taken back already.
    """
    if not may_revoke(user, grant):
        raise Refused("not_allowed", "Operators, admins and whoever gave it can take it back.")
    name = user.get_username()
    open_rows = Grant.objects.filter(pk=grant.pk, revoked_at=None)
    if not open_rows.update(revoked_at=Now(), revoked_by=name):
        grant.refresh_from_db()
        raise Refused("revoked", f"{grant.revoked_by} has taken it back already.")
    grant.refresh_from_db()
    return grant
