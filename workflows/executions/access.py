"""Roles, visibility and rights: every list, page, endpoint and socket checks them here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from django.contrib.auth import get_user_model
from django.contrib.postgres.aggregates import ArrayAgg
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, Model, OuterRef, Q, QuerySet, Value

from workflows.engine.protocol.actors import Actor
from workflows.models import ROLE_GROUPS, Absence, Audience, Execution, Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

M = TypeVar("M", bound=Model)
K = TypeVar("K", bound=Hashable)

#: The permission to start runs with a looser policy, and the scope that a token needs for it.
LOOSEN_POLICY = "workflows.loosen_policy"
LOOSEN = "loosen"
ROLES = ROLE_GROUPS
REVIEWER, AUDITOR, OPERATOR, INTEGRATOR, ADMIN = ROLES
#: Roles that may open the admin.
STAFF_ROLES = frozenset({REVIEWER, AUDITOR, OPERATOR, ADMIN})
#: Roles whose members cannot decide a hold, even if it names them.
NON_DECIDING_ROLES = frozenset({AUDITOR, OPERATOR, INTEGRATOR})

#: Roles that see every execution.
_SEE_ALL = frozenset({AUDITOR, OPERATOR, ADMIN})
_START = frozenset({REVIEWER, OPERATOR, INTEGRATOR, ADMIN})
_OPERATE = frozenset({OPERATOR, ADMIN})
_SUBSCRIBE = frozenset({INTEGRATOR, OPERATOR, ADMIN})


def roles_of(user: User | AnonymousUser | Any) -> frozenset[str]:
    """Return the names of an active user's groups; a superuser is an admin too."""
    if not user.is_authenticated or not user.is_active:
        return frozenset()
    return _as_roles(user, groups_of(user))


def _as_roles(user: Any, names: frozenset[str]) -> frozenset[str]:
    if not user.is_active:
        return frozenset()
    return names | {ADMIN} if user.is_superuser else names


def groups_of(user: Any) -> frozenset[str]:
    """Return the names of the user's groups, from `annotate_groups` if it was used."""
    cached = getattr(user, "group_names_read", None)
    return _memberships(user)[0] if cached is None else frozenset(cached)


def annotate_groups(users: QuerySet[Any]) -> QuerySet[Any]:
    """Annotate users with the names of their groups, so that `groups_of` needs no query."""
    names = ArrayAgg("groups__name", filter=Q(groups__isnull=False), default=Value([]))
    annotated: QuerySet[Any] = users.annotate(
        group_names_read=names,
        delegated_names_read=ArraySubquery(delegated_group_names(OuterRef("pk"))),
    )
    return annotated


def cache_groups(user: Any) -> Any:
    """Read the user's groups once and cache them on the user, for one request that only reads."""
    own, delegated = _memberships(user)
    return set_cached_groups(user, sorted(own), sorted(delegated))


def set_cached_groups(user: Any, names: Iterable[str], delegated: Iterable[str]) -> Any:
    """Cache group names on the user that the caller has just read."""
    user.group_names_read = list(names)
    user.delegated_names_read = list(delegated)
    return user


def read_user(pk: int) -> User | None:
    """Return a user as they are in the database now, with cached group names; None if missing."""
    user: User | None = annotate_groups(get_user_model().objects.filter(pk=pk)).first()
    return user


# --- absences -------------------------------------------------------------------------------------


def delegated_group_names(delegate: Any) -> QuerySet[Absence, Any]:
    """Return the names of the groups of the absent people whom `delegate` (an id) stands in for."""
    rows = Absence.objects.current().filter(delegate=delegate, user__groups__name__isnull=False)
    return rows.order_by().values("user__groups__name")


def delegated_groups_of(user: Any) -> frozenset[str]:
    """Return the groups of the absent people whom the user stands in for.

    They give no role: the user sees the runs that are addressed to these groups, and each decision
    checks again what the absent person may do (`reviews.decisions.rights`).
    """
    return _memberships(user)[1]


def _memberships(user: Any) -> tuple[frozenset[str], frozenset[str]]:
    """Return the user's own groups, and the groups of the people whom they stand in for."""
    own = getattr(user, "group_names_read", None)
    delegated = getattr(user, "delegated_names_read", None)
    if own is None or delegated is None:
        absent = Absence.objects.current().filter(delegate=user.pk).values("user")
        members = get_user_model().groups.through.objects.filter(
            Q(user=user.pk) | Q(user__in=absent)
        )
        rows = list(members.values_list("group__name", "user_id"))
        own = [name for name, member in rows if member == user.pk]
        delegated = [name for name, member in rows if member != user.pk]
    names = frozenset(own)
    if not user.is_active or AUDITOR in names:
        return names, frozenset()
    return names, frozenset(delegated) - NON_DECIDING_ROLES


def visible_to(user: User | AnonymousUser | Any) -> QuerySet[Execution]:
    """Return the executions that a user may see; those that retention erased have nothing left.

    Auditors, operators and admins see all executions.  Other users see those that they started
    and those with a hold, open or closed, that is addressed to one of their groups.
    """
    return with_erased(user).filter(erased_at=None)


def with_erased(user: User | AnonymousUser | Any) -> QuerySet[Execution]:
    """Return the executions that a user may see, also those whose data was erased.

    Only the audit log reads these: their plan, events and results do not exist any more.
    """
    if not user.is_authenticated:
        return Execution.objects.none()
    only = allowed_workflow_ids(user)
    rows = Execution.objects.all() if only is None else Execution.objects.filter(workflow__in=only)
    members = audience_members(user)
    return rows if members is None else rows.filter(pk__in=_addressed_to(members))


def filter_visible(rows: QuerySet[M], user: User | AnonymousUser | Any) -> QuerySet[M]:
    """Filter rows by whether the user may see their `execution`.

    Equivalent to `execution__in=with_erased(user)`, but joins executions only if necessary: lists
    of a million rows are answered from indexes.
    """
    if not user.is_authenticated or allowed_workflow_ids(user) is not None:
        return rows.filter(execution__in=with_erased(user))
    members = audience_members(user)
    return rows if members is None else rows.filter(execution_id__in=_addressed_to(members))


def is_addressed_to(members: list[str], *, execution: str) -> Exists:
    """Whether one of `members`, see `audience_members`, sees the execution in this column."""
    return Exists(Audience.objects.filter(execution_id=OuterRef(execution), member__in=members))


def visible_to_each(
    users: Mapping[K, User | Any], execution_ids: Collection[int]
) -> dict[K, frozenset[int]]:
    """Return the ids among `execution_ids` of the executions that each of `users` may see.

    Equivalent to `visible_to(user).filter(pk__in=execution_ids)` for each user; one statement for
    any number of users whose groups are cached (`annotate_groups`).
    """
    if not users or not execution_ids:
        return dict.fromkeys(users, frozenset())
    workflow_of: dict[int, int | None] = {}
    addressed: defaultdict[str, set[int]] = defaultdict(set)
    members = Audience.objects.filter(execution=OuterRef("pk")).order_by().values("member")
    rows = Execution.objects.filter(pk__in=execution_ids, erased_at=None)
    for pk, workflow_id, audience in rows.values_list("pk", "workflow_id", ArraySubquery(members)):
        workflow_of[pk] = workflow_id
        for member in audience:
            addressed[member].add(pk)

    def seen_by(user: Any) -> frozenset[int]:
        if not user.is_authenticated:
            return frozenset()
        mine, only = audience_members(user), allowed_workflow_ids(user)
        seen = (
            set(workflow_of) if mine is None else set().union(*(addressed[each] for each in mine))
        )
        return frozenset(pk for pk in seen if only is None or workflow_of[pk] in only)

    return {key: seen_by(user) for key, user in users.items()}


def audience_members(user: Any) -> list[str] | None:
    """Return the audience members that stand for a user; None for a user who sees everything."""
    own, delegated = _memberships(user)
    roles = _as_roles(user, own)
    if roles & _SEE_ALL:
        return None
    return [f"user:{user.pk}", *(f"group:{name}" for name in sorted(roles | delegated))]


def _addressed_to(members: list[str]) -> QuerySet[Audience, Any]:
    return Audience.objects.filter(member__in=members).values("execution_id")


def workflows_for(user: User | AnonymousUser | Any) -> QuerySet[Workflow]:
    """Return the workflows that a user may see: all, unless their token is limited to some."""
    only = allowed_workflow_ids(user)
    return Workflow.objects.all() if only is None else Workflow.objects.filter(pk__in=only)


# --- limits of the token a user acts with ---------------------------------------------------------


def limit_to_workflows(user: User, only: Iterable[int] | None) -> User:
    """Limit a user to the workflows of their token; None adds no limit.

    The limit is an attribute of the user, so every check that gets the user applies it.
    """
    if only is not None:
        user._only_workflows = frozenset(only)  # type: ignore[attr-defined]
    return user


def allowed_workflow_ids(user: User | AnonymousUser | Any) -> frozenset[int] | None:
    """Return the ids of the workflows that the user is limited to; None if there is no limit."""
    return getattr(user, "_only_workflows", None)


@dataclass(frozen=True, slots=True)
class Credential:
    """The token that a user acts with."""

    token_id: int
    scopes: frozenset[str]


def set_credential(user: User, credential: Credential | None) -> User:
    """Record the token that the user acts with; None stands for a session."""
    if credential is not None:
        user._credential = credential  # type: ignore[attr-defined]
    return user


def credential_of(user: User | AnonymousUser | Any) -> Credential | None:
    """Return the token that the user acts with; None for a session."""
    return getattr(user, "_credential", None)


def actor_of(user: User | Any) -> Actor:
    """Return the user as the sender of a command, with the token that they act with."""
    credential = credential_of(user)
    return Actor(user.get_username(), user.pk, credential.token_id if credential else None)


def may_loosen(user: User | AnonymousUser | Any) -> bool:
    """Whether the user may start an execution with a looser policy than its workflow requires.

    This needs the permission `loosen_policy`, and for a token also the scope `loosen`.
    """
    token = credential_of(user)
    return (token is None or LOOSEN in token.scopes) and bool(user.has_perm(LOOSEN_POLICY))


def can_see(user: Any, execution: Execution, addressed: Collection[str]) -> bool:
    """Whether a user may see an execution that has a hold addressed to the groups `addressed`.

    Equivalent to `visible_to(user)` with a query only if the roles do not answer it.
    """
    if not user.is_authenticated or execution.erased_at is not None:
        return False
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
    """Whether the user may command an execution: operators, admins and the user who started it."""
    roles = roles_of(user)
    if roles & _OPERATE:
        return True
    return bool(roles & _START) and execution.created_by_id == user.pk


def may_subscribe(user: User | AnonymousUser | Any) -> bool:
    """Whether the user may create webhook endpoints."""
    return bool(roles_of(user) & _SUBSCRIBE)


def may_backtest(user: User | AnonymousUser | Any) -> bool:
    """Whether the user may test rules against past reviews."""
    return bool(roles_of(user) & _SEE_ALL)


def may_publish_rules(user: User | AnonymousUser | Any) -> bool:
    """Whether the user may publish rules that skip reviews."""
    return bool(roles_of(user) & _OPERATE)
