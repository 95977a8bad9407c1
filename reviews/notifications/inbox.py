"""A person's own notices: how many are unread, reading them, marking them.  Nobody else's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from django.db.models import QuerySet
from django.db.models.functions import Now

from reviews.models.notifications import Notice
from reviews.sockets import change_receiver
from workflows.executions.access import visible_to

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from workflows.models import Hold

#: More unread ones are not counted: pages say “99+”.
MOST_COUNTED = 100


def notices_of(user: User, *, unread: bool = False) -> QuerySet[Notice]:
    """The person's notices of runs that they may (still) see, the newest first."""
    rows = Notice.objects.filter(user=user.pk, execution__in=visible_to(user))
    rows = rows.filter(read_at=None) if unread else rows
    return rows.select_related("hold__execution").defer(
        "hold__payload",
        "hold__execution__state",
        "hold__execution__context",
        "hold__execution__inputs",
    )


def unread_count(user: User) -> int:
    """How many are unread, at most MOST_COUNTED; one query when there are none."""
    return standing(user)[0]


def standing(user: User) -> tuple[int, int]:
    """How many are unread, and the newest of them; together they say whether anything changed."""
    rows = Notice.objects.filter(user=user.pk, read_at=None).order_by("-id")
    found = list(rows.values_list("pk", "execution_id")[:MOST_COUNTED])
    if not found:
        return 0, 0
    runs = {execution_id for _, execution_id in found}
    visible = set(visible_to(user).filter(pk__in=runs).values_list("pk", flat=True))
    seen = [pk for pk, execution_id in found if execution_id in visible]
    return len(seen), max(seen, default=0)


def mark_read(user: User, *, ids: Sequence[int] = (), everything: bool = False) -> int:
    """Mark notices of this person as read, and no one else's; how many were unread."""
    rows = Notice.objects.filter(user=user.pk, read_at=None)
    return _mark(user, rows if everything else rows.filter(pk__in=ids))


def seen(user: User, hold: Hold) -> None:
    """Whoever opens a review has read what told of it."""
    _mark(user, Notice.objects.filter(user=user.pk, hold=hold.pk, read_at=None))


def read_keys(user: User, keys: Iterable[str]) -> set[str]:
    """Those of `keys` that the person has read already."""
    rows = Notice.objects.filter(user=user.pk, key__in=list(keys), read_at__isnull=False)
    return set(rows.values_list("key", flat=True))


def _mark(user: User, rows: QuerySet[Notice]) -> int:
    done = rows.update(read_at=Now())
    if done:
        change_receiver.rang({user.pk})
    return done
