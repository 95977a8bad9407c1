"""Attempts to decide that were refused, a sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_

from reviews.audit.denied_attempts import denials
from reviews.components import labels as components_labels
from reviews.models import DeniedAttempt

from .list_page import Entry, KeptWords, kept_context

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_TRIED = {
    "APPROVE": N_("%(actor)s tried to approve %(subject)s in %(run)s"),
    "REJECT": N_("%(actor)s tried to reject %(subject)s in %(run)s"),
    "REQUEST_CHANGES": N_("%(actor)s tried to request changes of %(subject)s in %(run)s"),
    "WITHDRAW": N_("%(actor)s tried to take back the decision about %(subject)s in %(run)s"),
}


def denied_context(user: User, *, cursor: str) -> dict[str, Any]:
    """The context of kept.TEMPLATE; raises selectors.BadCursor."""
    said = KeptWords(
        heading=_("Denied attempts"),
        lead=_(
            "Who tried to decide something that was not theirs to decide. These entries are kept"
            " for good."
        ),
        nothing=_("Nobody was denied anything"),
        nothing_more=_(
            "When somebody tries to decide a review that they may not decide, it is noted here with"
            " the reason."
        ),
    )
    address = reverse("reviews:denied")
    return kept_context(said, denials(user), _entry, address=address, cursor=cursor)


def _entry(attempt: DeniedAttempt) -> Entry:
    subject = components_labels.subject(attempt.hold) or components_labels.about(
        "", attempt.hold.reason
    )
    title = components_labels.run_title(attempt.execution.title, attempt.execution_id)
    told = {"actor": attempt.actor, "subject": subject, "run": title}
    return Entry(
        sentence=_(_TRIED[attempt.wanted]) % told,
        subject=subject,
        quote=attempt.reason,
        at=attempt.at,
        url=reverse("reviews:decision", args=(attempt.execution_id, attempt.hold_id)),
    )
