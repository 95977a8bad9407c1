"""Claims, presence and saved views of the review queue."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class ReviewClaim(models.Model):
    """A reviewer's reservation of a hold; it expires unless a heartbeat renews it."""

    hold = models.OneToOneField("workflows.Hold", on_delete=models.CASCADE, related_name="claim")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    claimed_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    # The user who assigned it to `user`; null if they claimed it themselves.
    assigned_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        verbose_name = "claim"

    def __str__(self) -> str:
        return f"{self.user} holds {self.hold_id}"


class ClaimStart(models.Model):
    """The time of a hold's first claim, and the seconds since the hold opened."""

    hold = models.OneToOneField(
        "workflows.Hold", on_delete=models.CASCADE, related_name="claim_start"
    )
    claimed_at = models.DateTimeField(db_default=Now())
    after_seconds = models.FloatField()

    class Meta:
        indexes = [models.Index(fields=["claimed_at"], name="claim_start_by_time")]

    def __str__(self) -> str:
        return f"{self.hold_id} after {self.after_seconds} s"


class ReviewPresence(models.Model):
    """A user who views a hold, as long as `seen_at` is recent."""

    hold = models.ForeignKey("workflows.Hold", on_delete=models.CASCADE, related_name="presences")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["hold", "user"], name="presence_once"),
        ]
        indexes = [models.Index(fields=["seen_at"], name="presence_by_time")]

    def __str__(self) -> str:
        return f"{self.user} looks at {self.hold_id}"


class SavedView(models.Model):
    """A named view of the queue: tab, filters and order.

    `query` is the query string of the queue's URL, in canonical form (filters.query_string).
    """

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views"
    )
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=1000, blank=True, default="")
    shared = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("name", "pk")
        constraints = [
            models.UniqueConstraint(fields=["owner", "name"], name="saved_view_once"),
        ]

    def __str__(self) -> str:
        return self.name
