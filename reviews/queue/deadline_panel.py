"""A review's deadline, and the button that moves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from reviews.components import labels as components_labels
from reviews.decisions.rights import Right, right_now
from reviews.queue.extensions import may_extend
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def deadline_context(user: User, hold: Hold, *, error: str = "") -> dict[str, Any]:
    """`d` of `_deadline.html` alone; `hold.execution` is loaded."""
    return {
        "state": "open" if hold.status == Hold.Status.OPEN else "settled",
        "deadline": hold.expires_at,
        "urgent": components_labels.is_urgent(hold),
        "on_timeout": components_labels.on_timeout(hold),
        "extend_error": error,
        **deadline_addresses(hold, right_now(user, hold)),
    }


def deadline_addresses(hold: Hold, right: Right) -> dict[str, str]:
    """Where the deadline is read anew, and where it is moved ("" when that is not offered)."""
    if hold.expires_at is None:
        return {"deadline_url": "", "extend_url": ""}
    url = reverse("reviews:extend", args=(hold.execution_id, hold.id))
    offered = may_extend(hold, may_decide=right.any)
    return {"deadline_url": url, "extend_url": url if offered else ""}
