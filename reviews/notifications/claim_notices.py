"""Notices of claims that one person assigned to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reviews.models import NoticeKind, ReviewClaim
from workflows.models import Hold

from .notify import Notification, notify

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def claim_assigned(
    claim: ReviewClaim, hold: Hold, *, previous: ReviewClaim | None, actor: User
) -> None:
    """Notify the new and the previous holder of the claim, in the caller's transaction.

    The actor is not notified of their own action.
    """
    name, moment = actor.get_username(), f"{claim.expires_at.timestamp():.6f}"
    notifications = []
    if claim.user_id != actor.pk:
        notifications.append(
            Notification(
                kind=NoticeKind.CLAIM_GIVEN.value,
                hold=hold,
                key=f"given:{hold.pk}:{moment}",
                recipients=[claim.user],
                actor=name,
            )
        )
    if previous is not None and previous.user_id not in (actor.pk, claim.user_id):
        notifications.append(
            Notification(
                kind=NoticeKind.CLAIM_TAKEN.value,
                hold=hold,
                key=f"taken:{hold.pk}:{moment}",
                recipients=[previous.user],
                actor=name,
                detail={"to": claim.user.get_username()},
            )
        )
    notify(notifications)
