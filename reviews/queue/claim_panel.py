"""Who is on a review: the claim, those who look, and what can be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from reviews.components import labels as components_labels
from reviews.decisions.rights import Right
from reviews.queue.claims import candidates
from reviews.queue.presence import lookers
from workflows.executions.access import may_operate
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def claim_context(user: User, hold: Hold, right: Right) -> dict[str, Any]:
    """`claim` of `d`: by, mine, until, given_by, looking; addresses, "" where not offered."""
    is_open = hold.status == Hold.Status.OPEN
    by = components_labels.claimed_by(hold) if is_open else ""
    place = (hold.execution_id, hold.id)
    may_assign = is_open and (right.any or may_operate(user, hold.execution))
    names = lookers([hold.id], but=user.pk).get(hold.id, []) if is_open else []
    claim = hold.claim if by else None
    giver = claim.assigned_by if claim else None
    return {
        "by": by,
        "mine": by == user.get_username(),
        "until": claim.expires_at if claim else None,
        "given_by": giver.get_username() if giver else "",
        "looking": components_labels.looking_words(names),
        "may_claim": is_open and right.any,
        "url": reverse("reviews:claim", args=place) if may_assign else "",
        "looking_url": reverse("reviews:looking", args=place) if is_open else "",
        "people": tuple(name for name in candidates(hold) if name != by) if may_assign else (),
    }
