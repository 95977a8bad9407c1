"""Backtests: draft rules tested against past reviews, and their reports."""

from __future__ import annotations

import pgtrigger
from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from workflows.common.guards import NoTruncate, Refuse


class Backtest(models.Model):
    """Draft rules for a workflow, and their effect on its past reviews.

    A worker processes the records in batches, newest first: `cursor` is the last processed record,
    `looked` their number so far, of at most `total`.  A trigger prevents changes of a row that is
    DONE, so that rules can be published with its `digest`.
    """

    class Status(models.TextChoices):
        QUEUED = "QUEUED", "waits for a worker"
        RUNNING = "RUNNING", "is being worked out"
        DONE = "DONE", "done"
        FAILED = "FAILED", "could not be worked out"

    workflow = models.ForeignKey(
        "workflows.Workflow", on_delete=models.PROTECT, related_name="backtests"
    )
    # A list of engine.policy.ReviewRule as JSON: all rules that would be active.
    rules = models.JSONField()
    rules_digest = models.CharField(max_length=64)
    # The active version of the rules when these were drafted.
    base_version = models.IntegerField()
    since = models.DateTimeField(null=True)
    until = models.DateTimeField(null=True)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.QUEUED)
    # The newest record when the backtest began; 0 before.
    newest = models.BigIntegerField(default=0)
    cursor = models.BigIntegerField(default=0)
    looked = models.IntegerField(default=0)
    total = models.IntegerField(default=0)
    # The totals so far (`backtests.totals`), then the whole report.
    report = models.JSONField(default=dict)
    digest = models.CharField(max_length=64, blank=True, default="")
    error = models.TextField(blank=True, default="")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    author_name = models.CharField(max_length=150)
    created_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)
    # Number of the worker's claim: writes of older claims have no effect.
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
        triggers = [
            Refuse(
                name="done_stays",
                operation=pgtrigger.Update | pgtrigger.Delete,
                condition=pgtrigger.Q(old__status="DONE"),
                message="a finished backtest is never changed",
            ),
            NoTruncate(message="a finished backtest is never changed"),
        ]

    def __str__(self) -> str:
        return f"backtest {self.pk}"
