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
#: Sent by Slack by default, once the person has linked an account.
MESSAGED = frozenset({NoticeKind.WAITING.value, *MAILED})


@dataclass(frozen=True, slots=True)
class Preferences:
    """Kinds that are not shown, that are e-mailed, and that are sent to linked accounts."""

    muted: frozenset[str] = frozenset()
    mailed: frozenset[str] = MAILED
    messaged: frozenset[str] = MESSAGED

    def shows(self, kind: str) -> bool:
        return kind not in self.muted


DEFAULTS = Preferences()


def preferences_of(user: User) -> Preferences:
    """Return the preferences of one user."""
    return preferences_by_user([user.pk]).get(user.pk, DEFAULTS)


def preferences_by_user(user_ids: Iterable[int]) -> dict[int, Preferences]:
    """Return stored preferences by user id; users without any are left out."""
    rows = NoticePreference.objects.filter(pk__in=list(user_ids))
    return {row.pk: _stored(row) for row in rows}


def _stored(row: NoticePreference) -> Preferences:
    messaged = MESSAGED if row.messaged is None else frozenset(row.messaged)
    return Preferences(frozenset(row.muted), frozenset(row.mailed), messaged)


def save_preferences(
    *,
    user: User,
    shown: Collection[str],
    mailed: Collection[str],
    messaged: Collection[str] | None = None,
) -> Preferences:
    """Store which kinds are shown, e-mailed and sent to linked accounts; unknown kinds are ignored.

    With None the kinds that are sent to linked accounts stay as they are.
    """
    changes = {
        "muted": [kind for kind in KINDS if kind not in shown],
        "mailed": [kind for kind in KINDS if kind in mailed],
    }
    if messaged is not None:
        changes["messaged"] = [kind for kind in KINDS if kind in messaged]
    NoticePreference.objects.update_or_create(user=user, defaults=changes)
    return preferences_of(user)
