"""Who is told of a hold: those who may decide it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model

from reviews.decisions.rights import deciding_groups, four_eyes, shapers_of_each
from workflows.executions import access
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class Members:
    """The active members of some groups, with all their groups, and who shaped the holds' runs.

    Read once for all `holds` that are asked about.
    """

    def __init__(self, groups: Iterable[str], holds: Iterable[Hold]) -> None:
        self._shapers = shapers_of_each(holds)
        wanted = sorted(set(groups))
        people = get_user_model().objects.filter(is_active=True, groups__name__in=wanted)
        ids = people.values("pk")
        rows = get_user_model().objects.filter(pk__in=ids) if wanted else people.none()
        self._people: list[User] = list(access.annotate_groups(rows).order_by("pk"))

    def who_may_decide(self, hold: Hold, groups: Collection[str] = ()) -> list[User]:
        """Those who may approve the hold through `groups`, or through any of its own."""
        through = groups or hold.groups
        barred = self._shapers[hold.pk] if four_eyes(hold.execution) else frozenset()
        return [
            person
            for person in self._people
            if person.get_username() not in barred and _may_help(person, hold, through)
        ]


def _may_help(person: User, hold: Hold, through: Collection[str]) -> bool:
    groups = access.groups_of(person)
    if access.AUDITOR in groups or not deciding_groups(through, groups):
        return False
    return person.get_username() not in hold.approvals
