"""Reviews, runs, audit records, claims and messages in the admin."""

from __future__ import annotations

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from reviews.models import ReviewClaim
from workflows.admin.read_only import ReadOnly

from . import (
    absences,
    approvals,
    commands,
    gate_calls,
    holds,
    notices,
    records,
    retention,
    runs,
    security_events,
    slack,
)

#: Django finds the admin's pages through this module.
ALSO_HERE = (
    absences, approvals, commands, gate_calls, holds, notices, records, retention, runs,
    security_events, slack,
)  # fmt: skip


@admin.register(ReviewClaim)
class ReviewClaimAdmin(ReadOnly):
    """Claims of reviews, in runs that the user may see."""

    empty_text = gettext_lazy(
        "A claim shows others who is reviewing what: claim a review in the queue or in its "
        "list here."
    )
    execution_path = "hold__execution__in"
    list_display = ("hold", "user", "claimed_at", "expires_at", "review")
    list_select_related = ("user", "hold")

    @admin.display(description="review")
    def review(self, claim: ReviewClaim) -> SafeString:
        """The decision's page."""
        place = (claim.hold.execution_id, claim.hold_id)
        return format_html('<a href="{}">open</a>', reverse("reviews:decision", args=place))
