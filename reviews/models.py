"""What people did: claims and decisions.

HumanReviewRecord is append-only: a trigger refuses UPDATE, DELETE and TRUNCATE (migration 0002).
"""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class Decision(models.TextChoices):
    """The two answers a hold can have."""

    APPROVE = "APPROVE", "approved"
    REJECT = "REJECT", "rejected"


class ReviewClaim(models.Model):
    """A reviewer's reservation of a hold; it runs out unless its heartbeat renews it."""

    hold = models.OneToOneField("workflows.Hold", on_delete=models.CASCADE, related_name="claim")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    claimed_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.user} holds {self.hold_id}"


class HumanReviewRecord(models.Model):
    """One decision, as it was taken: what was shown, what was decided, by whom, at which version.

    `canonical` is the text that was hashed; `hash` = SHA-256 over the previous hash and it.
    The payload columns repeat it for reading, and are never what is hashed.
    """

    execution = models.ForeignKey(
        "workflows.Execution", on_delete=models.PROTECT, related_name="review_records"
    )
    hold = models.ForeignKey("workflows.Hold", on_delete=models.PROTECT, related_name="records")
    node_id = models.CharField(max_length=64, blank=True, default="")
    workflow_title = models.CharField(max_length=200)
    reason = models.CharField(max_length=20)
    trigger_phase = models.CharField(max_length=20, blank=True, default="")
    target = models.CharField(max_length=200, blank=True, default="")
    # Null when time decided; `actor` then says so.
    reviewer = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    actor = models.CharField(max_length=150)
    source = models.CharField(max_length=20)
    decision = models.CharField(max_length=10, choices=Decision.choices)
    original_data = models.JSONField(null=True)
    modified_data = models.JSONField(null=True)
    is_edited = models.BooleanField(default=False)
    change_count = models.IntegerField(default=0)
    comment = models.TextField(blank=True, default="")
    version = models.BigIntegerField()
    waited_seconds = models.FloatField(default=0)
    reviewed_at = models.DateTimeField()
    shown_digest = models.CharField(max_length=64)
    decided_digest = models.CharField(max_length=64)
    canonical = models.TextField()
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64, unique=True)

    class Meta:
        ordering = ("-id",)
        constraints = [
            # One person, one say on a hold; the races are lost here at the latest.
            models.UniqueConstraint(fields=["hold", "actor"], name="record_once_per_actor"),
            models.UniqueConstraint(
                fields=["execution", "version"], name="record_once_per_version"
            ),
        ]
        indexes = [
            models.Index(fields=["reviewer", "-id"], name="record_by_reviewer"),
            models.Index(fields=["execution", "-id"], name="record_by_execution"),
            models.Index(fields=["-reviewed_at"], name="record_by_time"),
            models.Index(fields=["-id"], condition=Q(decision="REJECT"), name="record_rejections"),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.get_decision_display()} {self.node_id or self.reason}"
