"""Which kinds of notices each user sees, and which are e-mailed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reviews.models import NoticeKind, NoticePreference

if TYPE_CHECKING:
    from django.contrib.auth.models import User

KINDS = tuple(NoticeKind.values)
#: E-mailed by default: reviews that were left undone, not each new one.
MAILED = frozenset({NoticeKind.REMINDER.value, NoticeKind.ESCALATED.value})


@dataclass(frozen=True, slots=True)
class Preferences:
    """Kinds that are not shown and kinds that are e-mailed."""

    muted: frozenset[str] = frozenset()
    mailed: frozenset[str] = MAILED

    def shows(self, kind: str) -> bool:
        return kind not in self.muted


DEFAULTS = Preferences()


def preferences_of(user: User) -> Preferences:
    """Return the preferences of one user."""
    return preferences_by_user([user.pk]).get(user.pk, DEFAULTS)


def preferences_by_user(user_ids: Iterable[int]) -> dict[int, Preferences]:
    """Return stored preferences by user id; users without any are left out."""
    rows = NoticePreference.objects.filter(pk__in=list(user_ids))
    return {row.pk: Preferences(frozenset(row.muted), frozenset(row.mailed)) for row in rows}


def save_preferences(*, user: User, shown: Collection[str], mailed: Collection[str]) -> Preferences:
    """Store which kinds are shown and which are e-mailed; unknown kinds are ignored."""
    NoticePreference.objects.update_or_create(
        user=user,
        defaults={
            "muted": [kind for kind in KINDS if kind not in shown],
            "mailed": [kind for kind in KINDS if kind in mailed],
        },
    )
    return preferences_of(user)
