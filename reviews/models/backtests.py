"""Rows for backtests: rules held against past reviews, and the reports of it."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class Backtest(models.Model):
    """Rules that somebody drafted for a workflow, and what they would have done to its reviews.

    Worked off by a worker, newest record first, in steps: `cursor` is the record it came to last,
    `looked` how many it has seen of at most `total`.  Once DONE a row never changes (trigger), so
    that rules can be published with its `digest`.
    """

    class Status(models.TextChoices):
        QUEUED = "QUEUED", "waits for a worker"
        RUNNING = "RUNNING", "is being worked out"
        DONE = "DONE", "done"
        FAILED = "FAILED", "could not be worked out"

    workflow = models.ForeignKey(
        "workflows.Workflow", on_delete=models.PROTECT, related_name="backtests"
    )
    # A list of engine.policy.ReviewRule as JSON: all that would be in force.
    rules = models.JSONField()
    rules_digest = models.CharField(max_length=64)
    # The version that was in force when they were drafted.
    base_version = models.IntegerField()
    since = models.DateTimeField(null=True)
    until = models.DateTimeField(null=True)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.QUEUED)
    # Records above were not there yet when it began; 0 until then.
    newest = models.BigIntegerField(default=0)
    cursor = models.BigIntegerField(default=0)
    looked = models.IntegerField(default=0)
    total = models.IntegerField(default=0)
    # Sums so far (backtest_sums.Sums), then the whole report.
    report = models.JSONField(default=dict)
    digest = models.CharField(max_length=64, blank=True, default="")
    error = models.TextField(blank=True, default="")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    author_name = models.CharField(max_length=150)
    created_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)
    # A worker's claim; `fence` grows with each, so that an older one's step lands nowhere.
    lease_until = models.DateTimeField(null=True)
    fence = models.BigIntegerField(default=0)

    class Meta:
        ordering = ("-id",)
        indexes = [
            models.Index(
                fields=["id"],
                condition=Q(status__in=["QUEUED", "RUNNING"]),
                name="backtest_unfinished",
            ),
        ]

    def __str__(self) -> str:
        return f"backtest {self.pk}"
