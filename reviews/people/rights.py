"""Which accounts and groups a user may change, and what they may give.

The admin checks these rules, through `people/services.py` where it changes something.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from workflows.executions.access import (
    ADMIN,
    AUDITOR,
    NON_DECIDING_ROLES,
    ROLES,
    groups_of,
    roles_of,
)

from .account_names import reading_of

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class ChangeRefused(Exception):
    """The change would give more than the user has, leave no administrator, or came too late."""


class OwnAccount(ChangeRefused):
    """People do not deactivate themselves: no one might be left to reverse it."""

    def __str__(self) -> str:
        return _("You cannot deactivate your own account. Ask another administrator.")


def may_manage(actor: User, person: User) -> bool:
    """Whether the user may change this account at all.

    Only superusers change superusers, and only admins change admins.  What an account signs in with
    has a limit of its own: see `may_take_over`.
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


def may_take_over(actor: User, person: User) -> bool:
    """Whether the user may set what this account signs in with.

    That is the password, the e-mail address that receives a new one, and the second factor.  Who
    sets them can act as the account, so the user has all of its rights already.  A vote is
    personal: nobody but an administrator takes over an account whose groups decide reviews.
    """
    if actor.is_superuser or actor.pk == person.pk:
        return True
    roles, groups = roles_of(actor), groups_of(person)
    if person.is_superuser or (AUDITOR in roles and AUDITOR not in groups):
        return False
    if ADMIN not in roles and not groups <= roles & NON_DECIDING_ROLES:
        return False
    # Also those of a deactivated account, which can be activated later.
    permissions = Permission.objects.filter(Q(user=person) | Q(group__user=person))
    return _names(permissions) <= actor.get_all_permissions()


def check_may_take_over(actor: User, person: User) -> None:
    """Raise PermissionDenied for an account whose sign-in the user may not set."""
    if not may_take_over(actor, person):
        raise PermissionDenied(
            _(
                "This account has rights that you do not have. Send the person a link to set a new"
                " password instead."
            )
        )


def check_group_name(name: str) -> None:
    """Raise ChangeRefused for the name of a new group that reads like the name of another one."""
    reading = reading_of(name)
    taken = {reading_of(each) for each in (*ROLES, *Group.objects.values_list("name", flat=True))}
    if reading in taken:
        text = _("There is a group with this name, or one that reads the same: %(name)s.")
        raise ChangeRefused(text % {"name": name})


def check_account(
    actor: User,
    person: User,
    *,
    is_active: bool,
    is_staff: bool,
    is_superuser: bool,
    groups: Iterable[Group],
    permissions: Iterable[Permission] | None = None,
) -> None:
    """Check new values of an account; None leaves the permissions as they are.

    Call it in the transaction of the change: it locks the account and those of all administrators.
    Raises PermissionDenied for an account that the user may not change, and ChangeRefused for
    values that give more than the user has or leave no administrator.
    """
    check_may_manage(actor, person)
    if person.pk == actor.pk and not is_active:
        raise OwnAccount
    groups = list(groups)
    check_administrator_stays(
        person, is_active=is_active, is_staff=is_staff, is_superuser=is_superuser, groups=groups
    )
    if is_superuser and not actor.is_superuser:
        raise ChangeRefused(_("Only a superuser can make another account a superuser."))
    check_groups(actor, groups=groups, before=person.groups.all())
    if permissions is not None:
        check_permissions(actor, permissions=permissions, before=person.user_permissions.all())


def check_members(
    actor: User, group: Group, *, add: Collection[User], remove: Collection[User]
) -> None:
    """Check a change of the members of a group, as `check_account` does for each of them."""
    lock_accounts([*add, *remove])
    for person in (*add, *remove):
        groups = set(person.groups.all()) - {group}
        check_account(
            actor,
            person,
            is_active=person.is_active,
            is_staff=person.is_staff,
            is_superuser=person.is_superuser,
            groups=groups | {group} if person in add else groups,
        )


def check_groups(actor: User, *, groups: Iterable[Group], before: Iterable[Group] = ()) -> None:
    """Raise ChangeRefused if a person may not get these groups, or lose the others of `before`.

    Superusers give every group.  Admins give the groups whose permissions they have.  Others give
    only roles of their own that decide no reviews: with an account that they can make or sign in
    to, a vote would count twice.  Nobody but an admin ends the limits of an auditor.
    """
    if actor.is_superuser:
        return
    roles, own = roles_of(actor), actor.get_all_permissions()
    for group in sorted(set(groups) - set(before), key=lambda group: group.name):
        may_give = ADMIN in roles or group.name in roles & NON_DECIDING_ROLES
        if not may_give or not _names(group.permissions.all()) <= own:
            text = _(
                "You cannot add the group %(name)s: only an administrator with its rights can."
            )
            raise ChangeRefused(text % {"name": group.name})
    removed = {group.name for group in set(before) - set(groups)}
    if AUDITOR in removed and ADMIN not in roles:
        raise ChangeRefused(_("Only an administrator can remove the group auditor."))


def check_permissions(
    actor: User, *, permissions: Iterable[Permission], before: Iterable[Permission] = ()
) -> None:
    """Raise ChangeRefused for new permissions that the user lacks; superusers have all."""
    new = set(permissions) - set(before)
    if not actor.is_superuser and not _names(new) <= actor.get_all_permissions():
        raise ChangeRefused(_("You cannot give permissions that you do not have."))


def _names(permissions: Iterable[Permission]) -> set[str]:
    rows = Permission.objects.filter(pk__in=[each.pk for each in permissions])
    names = rows.values_list("content_type__app_label", "codename")
    return {f"{app}.{codename}" for app, codename in names}


def check_administrator_stays(
    person: User, *, is_active: bool, is_staff: bool, is_superuser: bool, groups: Iterable[Group]
) -> None:
    """Raise ChangeRefused if these values leave no administrator who can sign in to the admin.

    The last superuser stays one; without superusers, the last member of the role admin does. Call
    it in the transaction of the change: it locks the account and those of all administrators, so
    that two of them cannot remove each other at the same time.
    """
    lock_accounts([person])
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


def lock_accounts(people: Iterable[User]) -> None:
    """Lock these accounts and those of all administrators until the transaction ends."""
    wanted = Q(pk__in=[each.pk for each in people]) | Q(pk__in=_administrators().values("pk"))
    # All in one order: two changes wait for each other instead of ending in a deadlock.
    rows = get_user_model().objects.filter(wanted).order_by("pk").select_for_update()
    list(rows.values_list("pk", flat=True))


def is_administrator(person: User) -> bool:
    """Whether the account is an active superuser or member of the role admin, and may sign in."""
    return _administrators().filter(pk=person.pk).exists()


def _administrators() -> QuerySet[User]:
    people = get_user_model().objects
    admins = people.filter(groups__name=ADMIN).values("pk")
    wanted = Q(is_superuser=True) | Q(pk__in=admins)
    return people.filter(wanted, is_active=True, is_staff=True)
