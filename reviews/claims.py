"""Reservations: telling others that somebody is on it.  They keep nobody from deciding."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.db import connection, transaction

from workflows.models import Hold

from . import conf
from .conflicts import conflict
from .models import ReviewClaim
from .rights import NotAllowed, fresh_user, right_now
from .services import Token, check_token, visible_hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_CLAIM = """
INSERT INTO reviews_reviewclaim AS held (hold_id, user_id, claimed_at, expires_at)
VALUES (%(hold)s, %(user)s, now(), now() + make_interval(secs => %(seconds)s))
ON CONFLICT (hold_id) DO UPDATE
   SET user_id = excluded.user_id, expires_at = excluded.expires_at,
       claimed_at = CASE WHEN held.user_id = excluded.user_id AND held.expires_at > now()
                         THEN held.claimed_at ELSE excluded.claimed_at END
 WHERE held.user_id = excluded.user_id OR held.expires_at <= now()
RETURNING id
"""


def claim(*, hold_id: str, user: User, token: Token | None = None) -> ReviewClaim:
    """Reserve a hold for `user`, or renew the reservation; calling again is the heartbeat.

    Raises HoldNotFound, NotAllowed, or Conflict when it is not open or somebody else has it.
    """
    check_token(token)
    with _own_hold(hold_id, user) as (hold, person):
        if not (right := right_now(person, hold)).any:
            raise NotAllowed(right.reason, right.code)
        if hold.status != Hold.Status.OPEN:
            raise conflict(hold_id, "decided", "This hold is not open any more.")
        with connection.cursor() as cursor:
            seconds = conf.claim_seconds()
            cursor.execute(_CLAIM, {"hold": hold.id, "user": person.pk, "seconds": seconds})
            found = cursor.fetchone()
        if found is None:
            raise conflict(hold_id, "claimed", "Somebody else has claimed this.")
        return ReviewClaim.objects.select_related("user").get(pk=found[0])


def release(*, hold_id: str, user: User, token: Token | None = None) -> bool:
    """Give a claim back; True when there was one.  Raises HoldNotFound or NotAllowed."""
    check_token(token)
    with _own_hold(hold_id, user) as (hold, person):
        gone, _ = ReviewClaim.objects.filter(hold=hold, user=person).delete()
    return gone > 0


@contextmanager
def _own_hold(hold_id: str, user: User) -> Iterator[tuple[Hold, User]]:
    with transaction.atomic():
        person = fresh_user(user)
        yield visible_hold(person, hold_id), person
