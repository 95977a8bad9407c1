"""Claims: a visible reservation of a hold, which keeps nobody from deciding it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.contrib.postgres.expressions import ArraySubquery
from django.db import connection, transaction
from django.db.models import OuterRef
from django.db.models.functions import Now

from reviews.absences.services import stands_in_for
from reviews.decisions.conflicts import conflict
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.rights import (
    deciding_groups,
    four_eyes,
    fresh_user,
    group_names,
    right_now,
    shapers_of,
)
from reviews.decisions.services import HoldNotFound, Token, check_token, visible_hold
from reviews.models import ReviewClaim
from reviews.notifications.claim_notices import claim_assigned
from reviews.sockets import broadcasts
from workflows.common.schemas import FieldError
from workflows.engine.values.reasons import Reason
from workflows.executions.access import may_operate
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Duration of a reviewer's claim without a heartbeat.
CLAIM_SECONDS = 300.0

_UPSERT_CLAIM = """
INSERT INTO reviews_reviewclaim AS held (hold_id, user_id, claimed_at, expires_at, assigned_by_id)
VALUES (%(hold)s, %(user)s, now(), now() + make_interval(secs => %(seconds)s), %(giver)s)
ON CONFLICT (hold_id) DO UPDATE
   SET user_id = excluded.user_id, expires_at = excluded.expires_at,
       claimed_at = CASE WHEN held.user_id = excluded.user_id AND held.expires_at > now()
                         THEN held.claimed_at ELSE excluded.claimed_at END,
       assigned_by_id = CASE WHEN held.user_id = excluded.user_id AND held.expires_at > now()
                             THEN held.assigned_by_id ELSE excluded.assigned_by_id END
 WHERE held.user_id = excluded.user_id OR held.expires_at <= now() OR %(force)s
RETURNING id, claimed_at = now()
"""
_INSERT_CLAIM_START = """
INSERT INTO reviews_claimstart (hold_id, claimed_at, after_seconds)
SELECT id, now(), GREATEST(0, EXTRACT(EPOCH FROM now() - opened_at))
  FROM workflows_hold WHERE id = %s
ON CONFLICT (hold_id) DO NOTHING
"""
_MAX_CANDIDATES = 100


def claim(*, hold_id: str, user: User, token: Token | None = None) -> ReviewClaim:
    """Reserve a hold for `user`, or renew the reservation.

    A delegate takes over the claim of an absent person.  Raises HoldNotFound, NotAllowed, or
    Conflict when it is not open or somebody else has it.
    """
    check_token(token)
    with _own_hold(hold_id, user) as (hold, person):
        if not (right := right_now(person, hold)).any:
            raise right.denied()
        _check_open(hold)
        holder = ReviewClaim.objects.filter(hold=hold).select_related("user").first()
        takes_over = holder is not None and stands_in_for(person, holder.user)
        claimed = _reserve(hold, person, takes_over=takes_over)
        if claimed is None:
            raise conflict(hold_id, "claimed", Reason("claimed_by_other"))
        return claimed


def renew(*, hold_id: str, user: User) -> bool:
    """Renew the claim of `user`; False if it has ended or `user` may not decide any more.

    Never makes a claim: a renewal may arrive after the release.  Raises HoldNotFound.
    """
    with _own_hold(hold_id, user) as (hold, person):
        if hold.status != Hold.Status.OPEN or not right_now(person, hold).any:
            return False
        held = ReviewClaim.objects.filter(hold=hold, user=person, expires_at__gt=Now())
        until = Now() + timedelta(seconds=CLAIM_SECONDS)
        return held.update(expires_at=until) > 0


def assign(*, hold_id: str, user: User, to: str, token: Token | None = None) -> ReviewClaim:
    """Assign a hold to another user, replacing any claim; `to` is a user name.

    Deciders of the hold and operators may assign.  Raises HoldNotFound, NotAllowed,
    Conflict when it is not open, or ReviewInvalid when `to` could not decide it.
    """
    check_token(token)
    with _own_hold(hold_id, user) as (hold, person):
        right = right_now(person, hold)
        if not (right.any or may_operate(person, hold.execution)):
            raise right.denied()
        _check_open(hold)
        target = get_user_model().objects.filter(username=to, is_active=True).first()
        if target is None or not right_now(target, hold).any or not _sees(target, hold):
            raise ReviewInvalid([FieldError("to", "is nobody who can decide this review")])
        before = ReviewClaim.objects.filter(hold=hold, expires_at__gt=Now()).first()
        claimed = _reserve(hold, target, giver=person, takes_over=True)
        if claimed is None:  # pragma: no cover - a forced reservation always lands
            raise conflict(hold_id, "claimed", Reason("claimed_by_other"))
        claim_assigned(claimed, hold, previous=before, actor=person)
        return claimed


def release(*, hold_id: str, user: User, token: Token | None = None) -> bool:
    """Release a claim; True when there was one.  Raises HoldNotFound or NotAllowed."""
    check_token(token)
    with _own_hold(hold_id, user) as (hold, person):
        deleted, _ = ReviewClaim.objects.filter(hold=hold, user=person).delete()
        if deleted:
            broadcasts.hold_activity(hold.execution_id, hold.id)
    return deleted > 0


def candidates(hold: Hold) -> list[str]:
    """Names of the people who can be assigned the hold, sorted; at most a hundred."""
    barred = shapers_of(hold) if four_eyes(hold.execution) else frozenset()
    excluded = [*barred, *(each for each in hold.approver_ids if each is not None)]
    members = get_user_model().objects.filter(is_active=True, groups__name__in=hold.groups)
    groups_of_member = Group.objects.filter(user=OuterRef("pk")).order_by("name").values("name")
    rows = members.exclude(pk__in=excluded).distinct().order_by("username")[:_MAX_CANDIDATES]
    people = rows.values_list("username", ArraySubquery(groups_of_member))
    return [name for name, groups in people if deciding_groups(hold.groups, groups)]


def _reserve(
    hold: Hold, person: User, *, takes_over: bool, giver: User | None = None
) -> ReviewClaim | None:
    """Insert or renew the claim; None when somebody else holds it, unless it is taken over."""
    with connection.cursor() as cursor:
        cursor.execute(
            _UPSERT_CLAIM,
            {
                "hold": hold.id,
                "user": person.pk,
                "seconds": CLAIM_SECONDS,
                "giver": giver.pk if giver and giver.pk != person.pk else None,
                "force": takes_over,
            },
        )
        row = cursor.fetchone()
        if row and row[1]:
            cursor.execute(_INSERT_CLAIM_START, [hold.id])
    if row is None:
        return None
    if row[1]:
        # Others are notified of a new claim, not of a heartbeat.
        broadcasts.hold_activity(hold.execution_id, hold.id)
    return ReviewClaim.objects.select_related("user").get(pk=row[0])


def _check_open(hold: Hold) -> None:
    if hold.status != Hold.Status.OPEN:
        raise conflict(hold.id, "decided", Reason("hold_is_closed"))


def _sees(person: User, hold: Hold) -> bool:
    try:
        visible_hold(person, hold.id)
    except HoldNotFound:
        return False
    return bool(group_names(person))


@contextmanager
def _own_hold(hold_id: str, user: User) -> Iterator[tuple[Hold, User]]:
    with transaction.atomic():
        person = fresh_user(user)
        yield visible_hold(person, hold_id), person
