"""Decisions and claims in the admin, to be read: people decide on the review pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from reviews.models import HumanReviewRecord, ReviewClaim

from . import notices
from .reading import ReadOnly

if TYPE_CHECKING:
    RecordBase = admin.ModelAdmin[HumanReviewRecord]
    ClaimBase = admin.ModelAdmin[ReviewClaim]
else:
    RecordBase = ClaimBase = admin.ModelAdmin


#: Django finds the admin's pages through this module.
ALSO_HERE = (notices,)


@admin.register(HumanReviewRecord)
class HumanReviewRecordAdmin(ReadOnly, RecordBase):
    """The audit log."""

    list_display = (
        "reviewed_at",
        "actor",
        "decision",
        "target",
        "node_id",
        "workflow_title",
        "is_edited",
        "version",
        "receipt",
    )
    list_filter = ("decision", "trigger_phase", "is_edited", "reason", "source")
    search_fields = ("node_id", "target", "actor", "comment", "workflow_title")
    date_hierarchy = "reviewed_at"
    list_select_related = ("reviewer",)
    show_full_result_count = False

    @admin.display(description="record")
    def receipt(self, record: HumanReviewRecord) -> SafeString:
        """The record's own page, with its three columns and digests."""
        return format_html('<a href="{}">open</a>', reverse("reviews:record", args=(record.pk,)))


@admin.register(ReviewClaim)
class ReviewClaimAdmin(ReadOnly, ClaimBase):
    """Who is on what."""

    list_display = ("hold", "user", "claimed_at", "expires_at", "review")
    list_select_related = ("user", "hold")

    @admin.display(description="review")
    def review(self, claim: ReviewClaim) -> SafeString:
        """The decision's page."""
        place = (claim.hold.execution_id, claim.hold_id)
        return format_html('<a href="{}">open</a>', reverse("reviews:decision", args=place))
