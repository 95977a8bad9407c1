"""Which accounts a user may change and what they may give, on the desk and in the admin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from workflows.executions.access import ADMIN, ROLES, groups_of, roles_of

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class ChangeRefused(Exception):
    """The change would give more than the user has, leave no administrator, or came too late."""


def may_manage(actor: User, person: User) -> bool:
    """Whether the user may change this account at all.

    A new password is as good as the account, so only superusers change superusers, and only admins
    change admins.
    """
    if actor.is_superuser:
        return True
    if person.is_superuser:
        return False
    return ADMIN not in groups_of(person) or ADMIN in roles_of(actor)


def check_may_manage(actor: User, person: User) -> None:
    """Raise PermissionDenied for an account that the user may not change."""
    if not may_manage(actor, person):
        raise PermissionDenied(_("Only an administrator may change this account."))


def check_given(
    actor: User,
    person: User | None,
    *,
    groups: Iterable[Group],
    permissions: Iterable[Permission] = (),
) -> None:
    """Raise ChangeRefused for new groups or permissions that the user lacks; superusers may.

    `person` is None for a new account.
    """
    if actor.is_superuser:
        return
    old_groups = set(person.groups.all()) if person is not None else set()
    old_permissions = set(person.user_permissions.all()) if person is not None else set()
    own = actor.get_all_permissions()
    roles = roles_of(actor)
    for group in sorted(set(groups) - old_groups, key=lambda each: each.name):
        # A role has rights by its name too.
        is_above = group.name in ROLES and not roles & {group.name, ADMIN}
        rows = group.permissions.select_related("content_type")
        if is_above or not _names(rows) <= own:
            text = _("You cannot add the group %(name)s: it has permissions that you do not have.")
            raise ChangeRefused(text % {"name": group.name})
    if not _names(set(permissions) - old_permissions) <= own:
        raise ChangeRefused(_("You cannot give permissions that you do not have."))


def _names(permissions: Iterable[Permission]) -> set[str]:
    return {f"{each.content_type.app_label}.{each.codename}" for each in permissions}


def check_administrator_stays(
    person: User, *, is_active: bool, is_staff: bool, is_superuser: bool, groups: Iterable[Group]
) -> None:
    """Raise ChangeRefused if these values leave no administrator who can sign in to the admin.

    The last superuser stays one; without superusers, the last member of the role admin does. Call
    it in the transaction of the change: it locks the accounts of all administrators, so that two
    of them cannot remove each other at the same time.
    """
    # All in one order: two changes wait for each other instead of ending in a deadlock.
    list(_administrators().order_by("pk").select_for_update().values_list("pk", flat=True))
    # Read again: a change that the lock waited for may have removed groups.
    others = _administrators().exclude(pk=person.pk)
    before = _administrators().filter(pk=person.pk).values_list("is_superuser", flat=True).first()
    if before is None:
        return
    if before:
        others = others.filter(is_superuser=True)
    is_admin = is_superuser or (not before and any(each.name == ADMIN for each in groups))
    if not (is_active and is_staff and is_admin) and not others.exists():
        raise ChangeRefused(
            _("This is the last administrator. Make another account an administrator first.")
        )


def is_administrator(person: User) -> bool:
    """Whether the account is an active superuser or member of the role admin, and may sign in."""
    return _administrators().filter(pk=person.pk).exists()


def _administrators() -> QuerySet[User]:
    people = get_user_model().objects
    admins = people.filter(groups__name=ADMIN).values("pk")
    wanted = Q(is_superuser=True) | Q(pk__in=admins)
    return people.filter(wanted, is_active=True, is_staff=True)
