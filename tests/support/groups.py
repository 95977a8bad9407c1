"""Groups with the permissions that the migrations give to the roles."""

from __future__ import annotations

from django.contrib.auth.models import Group, Permission

from workflows.executions.access import ADMIN, OPERATOR

#: Groups that plans of the tests name; a plan that names another one is refused.
NAMED = ("board", "claimed", "free", "friends", "legal", "own", "security", "voted")


def known_groups() -> None:
    """Make the groups that plans of the tests name."""
    Group.objects.bulk_create([Group(name=name) for name in NAMED], ignore_conflicts=True)


def group_of(name: str) -> Group:
    """The group of this name; a test that empties the database takes those of migrations along."""
    group, _ = Group.objects.get_or_create(name=name)
    if name in (ADMIN, OPERATOR):
        group.permissions.add(Permission.objects.get(codename="loosen_policy"))
    return group
