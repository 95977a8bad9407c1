"""What each person wants to be told, and how."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reviews.models.notifications import NoticeKind, NoticePreference

if TYPE_CHECKING:
    from django.contrib.auth.models import User

KINDS = tuple(NoticeKind.values)
#: Sent by e-mail unless somebody says otherwise: what was left undone, not everything that comes.
MAILED = frozenset({NoticeKind.REMINDER.value, NoticeKind.ESCALATED.value})


@dataclass(frozen=True, slots=True)
class Wishes:
    """Kinds that are not shown, and kinds that are mailed."""

    muted: frozenset[str] = frozenset()
    mailed: frozenset[str] = MAILED

    def shows(self, kind: str) -> bool:
        return kind not in self.muted


DEFAULTS = Wishes()


def wishes_of(user: User) -> Wishes:
    """The wishes of one person."""
    return wishes_of_all([user.pk]).get(user.pk, DEFAULTS)


def wishes_of_all(user_ids: Iterable[int]) -> dict[int, Wishes]:
    """Wishes by user id, of those who have any; one query."""
    rows = NoticePreference.objects.filter(pk__in=list(user_ids))
    return {row.pk: Wishes(frozenset(row.muted), frozenset(row.mailed)) for row in rows}


def save_wishes(*, user: User, shown: Collection[str], mailed: Collection[str]) -> Wishes:
    """Keep which kinds are shown and which are mailed; kinds nobody knows count for nothing."""
    NoticePreference.objects.update_or_create(
        user=user,
        defaults={
            "muted": [kind for kind in KINDS if kind not in shown],
            "mailed": [kind for kind in KINDS if kind in mailed],
        },
    )
    return wishes_of(user)
