"""A user's own notices: list, count and mark as read."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from django.contrib.auth import get_user_model
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef, QuerySet
from django.db.models.functions import Now

from reviews.models import Notice
from reviews.sockets import broadcasts
from workflows.executions.access import visible_to, visible_to_each

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from workflows.models import Hold

K = TypeVar("K", bound=Hashable)

#: Unread notices are counted up to this number: pages show “99+”.
MAX_COUNTED = 100


def notices_of(user: User, *, unread: bool = False) -> QuerySet[Notice]:
    """Return the user's notices of runs that they may see, newest first."""
    rows = Notice.objects.filter(user=user.pk, execution__in=visible_to(user))
    rows = rows.filter(read_at=None) if unread else rows
    return rows.select_related("hold__execution").defer(
        "hold__payload",
        "hold__execution__state",
        "hold__execution__context",
        "hold__execution__inputs",
    )


def unread_count(user: User) -> int:
    """Return the number of unread notices, at most MAX_COUNTED; one query when there are none."""
    return unread_state(user)[0]


def unread_state(user: User) -> tuple[int, int]:
    """Return the number of unread notices and the newest id; if both are equal, nothing changed."""
    return unread_states({user.pk: user})[user.pk]


def unread_states(users: Mapping[K, User]) -> dict[K, tuple[int, int]]:
    """Return `unread_state` of each user; two statements for any number of users."""
    newest = Notice.objects.filter(user=OuterRef("pk"), read_at=None).order_by("-id")[:MAX_COUNTED]
    notices, runs = (ArraySubquery(newest.values(name)) for name in ("pk", "execution_id"))
    people = get_user_model().objects.filter(pk__in={user.pk for user in users.values()})
    unread = {
        pk: list(zip(notice_ids, run_ids, strict=True))
        for pk, notice_ids, run_ids in people.values_list("pk", notices, runs)
    }
    visible = visible_to_each(users, {run for rows in unread.values() for _, run in rows})
    states = {}
    for key, user in users.items():
        ids = [notice for notice, run in unread.get(user.pk, ()) if run in visible[key]]
        states[key] = (len(ids), max(ids, default=0))
    return states


def mark_read(user: User, *, ids: Sequence[int] = (), everything: bool = False) -> int:
    """Mark the user's own notices as read; return how many were unread."""
    rows = Notice.objects.filter(user=user.pk, read_at=None)
    return _mark(user, rows if everything else rows.filter(pk__in=ids))


def mark_hold_read(user: User, hold: Hold) -> None:
    """Mark the user's notices of the hold as read, because they opened its page."""
    _mark(user, Notice.objects.filter(user=user.pk, hold=hold.pk, read_at=None))


def read_keys(user: User, keys: Iterable[str]) -> set[str]:
    """Return the keys among `keys` whose notices the user has read."""
    rows = Notice.objects.filter(user=user.pk, key__in=list(keys), read_at__isnull=False)
    return set(rows.values_list("key", flat=True))


def _mark(user: User, rows: QuerySet[Notice]) -> int:
    marked = rows.update(read_at=Now())
    if marked:
        broadcasts.unread_changed({user.pk})
    return marked
