"""People who may decide a hold, and so are notified of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model

from reviews.decisions.rights import deciding_groups, four_eyes, shapers_of_each
from workflows.executions import access
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class EligibleDeciders:
    """Active members of `groups`, and the people whom four eyes excludes, read once for `holds`."""

    def __init__(self, groups: Iterable[str], holds: Iterable[Hold]) -> None:
        self._shapers = shapers_of_each(holds)
        names = sorted(set(groups))
        self._users: list[User] = _active_members(names) if names else []

    def for_hold(self, hold: Hold, groups: Collection[str] = ()) -> list[User]:
        """Return the users who may approve the hold as members of `groups`, or of its own."""
        allowed = groups or hold.groups
        excluded = self._shapers[hold.pk] if four_eyes(hold.execution) else frozenset()
        return [
            user
            for user in self._users
            if user.pk not in excluded and _may_approve(user, hold, allowed)
        ]


def _active_members(names: Iterable[str]) -> list[User]:
    """Return the active members of these groups, with the names of all their groups."""
    members = get_user_model().objects.filter(is_active=True, groups__name__in=names)
    rows = get_user_model().objects.filter(pk__in=members.values("pk"))
    return list(access.annotate_groups(rows).order_by("pk"))


def _may_approve(user: User, hold: Hold, allowed: Collection[str]) -> bool:
    groups = access.groups_of(user)
    if access.AUDITOR in groups or not deciding_groups(allowed, groups):
        return False
    return user.pk not in hold.approver_ids
