"""Presence: who is viewing a review.  Pages send a heartbeat and a message on leaving."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import connection
from django.db.models.functions import Now

from reviews.decisions.services import visible_hold
from reviews.models import ReviewPresence
from reviews.sockets import broadcasts
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Seconds without a heartbeat after which a viewer has left; pages send three in that time.
FRESH_SECONDS = 60

_UPSERT_PRESENCE = """
WITH before AS (
    SELECT seen_at > now() - make_interval(secs => %(fresh)s) AS fresh
      FROM reviews_reviewpresence WHERE hold_id = %(hold)s AND user_id = %(user)s
)
INSERT INTO reviews_reviewpresence AS seen (hold_id, user_id, seen_at)
VALUES (%(hold)s, %(user)s, now())
ON CONFLICT (hold_id, user_id) DO UPDATE SET seen_at = excluded.seen_at
RETURNING COALESCE((SELECT fresh FROM before), false)
"""


def mark_viewing(*, hold_id: str, user: User) -> None:
    """Record that `user` is viewing the hold; notifies others once.  Raises HoldNotFound."""
    hold = visible_hold(user, hold_id)
    if hold.status != Hold.Status.OPEN:
        return
    with connection.cursor() as cursor:
        cursor.execute(_UPSERT_PRESENCE, {"hold": hold.id, "user": user.pk, "fresh": FRESH_SECONDS})
        (was_here,) = cursor.fetchone()
    if not was_here:
        broadcasts.hold_activity(hold.execution_id, hold.id, viewer_id=user.pk)


def mark_left(*, hold_id: str, user: User) -> None:
    """Record that `user` has left the hold.  Raises HoldNotFound."""
    hold = visible_hold(user, hold_id)
    deleted, _ = ReviewPresence.objects.filter(hold=hold, user=user).delete()
    if deleted:
        broadcasts.hold_activity(hold.execution_id, hold.id, viewer_id=user.pk)


def viewers_of(hold_ids: Iterable[str], *, but: int) -> dict[str, list[str]]:
    """Map hold ids to the names of their viewers, without the user `but`; one query."""
    viewers: dict[str, list[str]] = {}
    fresh = Now() - timedelta(seconds=FRESH_SECONDS)
    rows = ReviewPresence.objects.filter(hold_id__in=list(hold_ids), seen_at__gt=fresh)
    rows = rows.exclude(user_id=but).order_by("user__username")
    for hold_id, name in rows.values_list("hold_id", "user__username"):
        viewers.setdefault(hold_id, []).append(name)
    return viewers


def forget_old() -> int:
    """Delete rows older than an hour; returns their number.  The sweeper calls this."""
    old = ReviewPresence.objects.filter(seen_at__lt=Now() - timedelta(hours=1))
    deleted, _ = old.delete()
    return deleted
