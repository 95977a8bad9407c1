"""Attempts to decide that were refused, a sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_

from reviews import conf, selectors
from reviews.denials import denials
from reviews.models import DeniedAttempt
from reviews.sentences import in_language

from . import words

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_TRIED = {
    "APPROVE": N_("%(actor)s tried to approve %(subject)s in %(run)s"),
    "REJECT": N_("%(actor)s tried to reject %(subject)s in %(run)s"),
    "REQUEST_CHANGES": N_("%(actor)s tried to request changes of %(subject)s in %(run)s"),
    "WITHDRAW": N_("%(actor)s tried to take back the decision about %(subject)s in %(run)s"),
}


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
    subject = words.subject(attempt.hold) or words.about("", attempt.hold.reason)
    title = words.run_title(attempt.execution.title, attempt.execution_id)
    return {
        "sentence": _(_TRIED[attempt.wanted])
        % {"actor": attempt.actor, "subject": subject, "run": title},
        "subject": subject,
        "reason": in_language(attempt.reason),
        "at": attempt.at,
        "url": reverse("reviews:decision", args=(attempt.execution_id, attempt.hold_id)),
    }
