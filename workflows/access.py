"""Who may see and do what.  Every list, page, endpoint and socket asks here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from .models import Execution, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

REVIEWER = "reviewer"
AUDITOR = "auditor"
OPERATOR = "operator"
INTEGRATOR = "integrator"
ADMIN = "admin"
ROLES = (REVIEWER, AUDITOR, OPERATOR, INTEGRATOR, ADMIN)

#: Those who see every execution.
_SEE_ALL = frozenset({AUDITOR, OPERATOR, ADMIN})
_START = frozenset({REVIEWER, OPERATOR, INTEGRATOR, ADMIN})
_OPERATE = frozenset({OPERATOR, ADMIN})


def roles_of(user: User | AnonymousUser | Any) -> frozenset[str]:
    """Names of the user's groups, read now; a superuser is an admin, nobody else is anything."""
    if not user.is_authenticated or not user.is_active:
        return frozenset()
    names = frozenset(user.groups.values_list("name", flat=True))
    return names | {ADMIN} if user.is_superuser else names


def visible_to(user: User | AnonymousUser | Any) -> QuerySet[Execution]:
    """The executions this user may know of; what is not in here does not exist for them.

    Auditors, operators and admins see all; everybody sees what they started; a member of a group
    sees the executions that stopped, or stop, for that group.
    """
    roles = roles_of(user)
    if roles & _SEE_ALL:
        return Execution.objects.all()
    if not roles and not user.is_authenticated:
        return Execution.objects.none()
    addressed = Hold.objects.filter(execution=OuterRef("pk"), groups__overlap=sorted(roles))
    return Execution.objects.filter(Q(created_by=user.pk) | Exists(addressed))


def may_start(user: User | AnonymousUser | Any) -> bool:
    """Whether the user may start executions."""
    return bool(roles_of(user) & _START)


def may_operate(user: User | AnonymousUser | Any, execution: Execution) -> bool:
    """Whether the user may command this execution: operators, admins and whoever started it."""
    roles = roles_of(user)
    if roles & _OPERATE:
        return True
    return bool(roles & _START) and execution.created_by_id == user.pk
