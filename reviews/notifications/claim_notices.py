"""Telling people that a review was given to them, or taken from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reviews.models import ReviewClaim
from reviews.models.notifications import NoticeKind
from workflows.models import Hold

from .notify import Telling, tell

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def given(claim: ReviewClaim, hold: Hold, *, before: ReviewClaim | None, giver: User) -> None:
    """`giver` gave the hold to whoever has the claim now; `before` is who had it, if anybody.

    In the caller's transaction.  Nobody is told what they did themselves.
    """
    name, moment = giver.get_username(), f"{claim.expires_at.timestamp():.6f}"
    told = []
    if claim.user_id != giver.pk:
        told.append(
            Telling(
                kind=NoticeKind.CLAIM_GIVEN.value,
                hold=hold,
                key=f"given:{hold.pk}:{moment}",
                to=[claim.user],
                actor=name,
            )
        )
    if before is not None and before.user_id not in (giver.pk, claim.user_id):
        told.append(
            Telling(
                kind=NoticeKind.CLAIM_TAKEN.value,
                hold=hold,
                key=f"taken:{hold.pk}:{moment}",
                to=[before.user],
                actor=name,
                detail={"to": claim.user.get_username()},
            )
        )
    tell(told)
