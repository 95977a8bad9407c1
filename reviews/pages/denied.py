"""Attempts to decide that were refused, a sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from reviews import conf, selectors
from reviews.denials import denials
from reviews.models import DeniedAttempt

from . import words

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_VERBS = {"APPROVE": "approve", "REJECT": "reject"}


def denied_context(user: User, *, cursor: str) -> dict[str, Any]:
    """rows: sentence, subject, reason, at, url; raises selectors.BadCursor."""
    page = selectors.page(denials(user), cursor=cursor, size=conf.page_size())
    address = reverse("reviews:denied")
    return {
        "rows": tuple(_row(attempt) for attempt in page.rows),
        "next_url": f"{address}?cursor={page.next}" if page.next else "",
        "previous_url": address if cursor else "",
        "page_words": "",
    }


def _row(attempt: DeniedAttempt) -> dict[str, Any]:
    subject = words.subject(attempt.hold) or attempt.hold.reason.replace("_", " ")
    verb = _VERBS[attempt.wanted]
    title = words.run_title(attempt.execution.title, attempt.execution_id)
    return {
        "sentence": f"{attempt.actor} tried to {verb} {subject} in {title}",
        "subject": subject,
        "reason": attempt.reason,
        "at": attempt.at,
        "url": reverse("reviews:decision", args=(attempt.execution_id, attempt.hold_id)),
    }
