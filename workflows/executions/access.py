"""Who may see and do what.  Every list, page, endpoint and socket asks here."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Model, Q, QuerySet, Value

from workflows.models import Audience, Execution, Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

M = TypeVar("M", bound=Model)

REVIEWER = "reviewer"
AUDITOR = "auditor"
OPERATOR = "operator"
INTEGRATOR = "integrator"
ADMIN = "admin"
#: The permission to start runs with a looser policy, and the scope that a token needs for it.
LOOSEN_POLICY = "workflows.loosen_policy"
LOOSEN = "loosen"
ROLES = (REVIEWER, AUDITOR, OPERATOR, INTEGRATOR, ADMIN)
#: Roles that look on or steer; a hold that names one of them is not decided by it.
NON_DECIDING_ROLES = frozenset({AUDITOR, OPERATOR, INTEGRATOR})

#: Those who see every execution.
_SEE_ALL = frozenset({AUDITOR, OPERATOR, ADMIN})
_START = frozenset({REVIEWER, OPERATOR, INTEGRATOR, ADMIN})
_OPERATE = frozenset({OPERATOR, ADMIN})
_SUBSCRIBE = frozenset({INTEGRATOR, OPERATOR, ADMIN})


def roles_of(user: User | AnonymousUser | Any) -> frozenset[str]:
    """Names of the user's groups, read now; a superuser is an admin, nobody else is anything."""
    if not user.is_authenticated or not user.is_active:
        return frozenset()
    names = groups_of(user)
    return names | {ADMIN} if user.is_superuser else names


def groups_of(user: Any) -> frozenset[str]:
    """Names of the user's groups, read now, or just now with the user by `annotate_groups`."""
    known = getattr(user, "group_names_read", None)
    if known is not None:
        return frozenset(known)
    return frozenset(user.groups.values_list("name", flat=True))


def annotate_groups(users: QuerySet[Any]) -> QuerySet[Any]:
    """Users that bring the names of their groups along, for who asks more than once at a moment."""
    names = ArrayAgg("groups__name", filter=Q(groups__isnull=False), default=Value([]))
    brought: QuerySet[Any] = users.annotate(group_names_read=names)
    return brought


def cache_groups(user: Any) -> Any:
    """The user, who from now on brings the names of their groups along: for a page that shows."""
    return set_cached_groups(user, sorted(groups_of(user)))


def set_cached_groups(user: Any, names: Iterable[str]) -> Any:
    """The same, with the names as they were just read together with the user."""
    user.group_names_read = list(names)
    return user


def visible_to(user: User | AnonymousUser | Any) -> QuerySet[Execution]:
    """The executions this user may know of; what is not in here does not exist for them.

    Auditors, operators and admins see all; everybody sees what they started; a member of a group
    sees the executions that stopped, or stop, for that group.
    """
    if not user.is_authenticated:
        return Execution.objects.none()
    only = allowed_workflow_ids(user)
    rows = Execution.objects.all() if only is None else Execution.objects.filter(workflow__in=only)
    members = _members_of(user)
    return rows if members is None else rows.filter(pk__in=_heard_by(members))


def filter_visible(rows: QuerySet[M], user: User | AnonymousUser | Any) -> QuerySet[M]:
    """Those of `rows` whose `execution` is one of visible_to(user).

    The same as `execution__in=visible_to(user)`, without looking at executions where nothing
    depends on them: lists of a million rows answer from indexes.
    """
    if not user.is_authenticated or allowed_workflow_ids(user) is not None:
        return rows.filter(execution__in=visible_to(user))
    members = _members_of(user)
    return rows if members is None else rows.filter(execution_id__in=_heard_by(members))


def _members_of(user: Any) -> list[str] | None:
    """As what an authenticated user belongs to audiences; None for who sees everything."""
    roles = roles_of(user)
    if roles & _SEE_ALL:
        return None
    return [f"user:{user.pk}", *(f"group:{name}" for name in sorted(roles))]


def _heard_by(members: list[str]) -> QuerySet[Audience, Any]:
    return Audience.objects.filter(member__in=members).values("execution_id")


def workflows_for(user: User | AnonymousUser | Any) -> QuerySet[Workflow]:
    """The workflows this user may know of: all, unless their token is for some alone."""
    only = allowed_workflow_ids(user)
    return Workflow.objects.all() if only is None else Workflow.objects.filter(pk__in=only)


# --- tokens for some workflows alone --------------------------------------------------------------


def limit_to_workflows(user: User, only: Iterable[int] | None) -> User:
    """The same user, who from now on sees and starts these workflows alone; None lifts nothing.

    What a token may reach travels with its user, so that no door can forget to ask.
    """
    if only is not None:
        user._only_workflows = frozenset(only)  # type: ignore[attr-defined]
    return user


def allowed_workflow_ids(user: User | AnonymousUser | Any) -> frozenset[int] | None:
    """Ids of the workflows that the user came for; None when they came for all."""
    return getattr(user, "_only_workflows", None)


@dataclass(frozen=True, slots=True)
class Credential:
    """The token that a user acts with."""

    token_id: int
    scopes: frozenset[str]


def set_credential(user: User, credential: Credential | None) -> User:
    """The same user, who from now on acts with this token; None is a session."""
    if credential is not None:
        user._credential = credential  # type: ignore[attr-defined]
    return user


def credential_of(user: User | AnonymousUser | Any) -> Credential | None:
    """The token that the user acts with; None for a session."""
    return getattr(user, "_credential", None)


def may_loosen(user: User | AnonymousUser | Any) -> bool:
    """Whether the user may start a run with a looser policy than its workflow asks for.

    That is a permission of its own, and for a token a scope of its own as well.
    """
    token = credential_of(user)
    return (token is None or LOOSEN in token.scopes) and bool(user.has_perm(LOOSEN_POLICY))


def can_see(user: Any, execution: Execution, addressed: Collection[str]) -> bool:
    """Whether `visible_to(user)` has this execution, one of whose holds is for `addressed`."""
    only = allowed_workflow_ids(user)
    if only is not None and execution.workflow_id not in only:
        return False
    roles = roles_of(user)
    if roles & _SEE_ALL or execution.created_by_id == user.pk or roles.intersection(addressed):
        return True
    return visible_to(user).filter(pk=execution.pk).exists()


def may_start(user: User | AnonymousUser | Any) -> bool:
    """Whether the user may start executions."""
    return bool(roles_of(user) & _START)


def may_operate(user: User | AnonymousUser | Any, execution: Execution) -> bool:
    """Whether the user may command this execution: operators, admins and whoever started it."""
    roles = roles_of(user)
    if roles & _OPERATE:
        return True
    return bool(roles & _START) and execution.created_by_id == user.pk


def may_subscribe(user: User | AnonymousUser | Any) -> bool:
    """Whether the user may have events sent to addresses of their own."""
    return bool(roles_of(user) & _SUBSCRIBE)


def may_backtest(user: User | AnonymousUser | Any) -> bool:
    """Whether the user may hold rules against past reviews: those who see every execution."""
    return bool(roles_of(user) & _SEE_ALL)


def may_publish_rules(user: User | AnonymousUser | Any) -> bool:
    """Whether the user may say which reviews are spared; having started a run is not enough."""
    return bool(roles_of(user) & _OPERATE)
