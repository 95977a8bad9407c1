"""The row of a result that was worked out ahead; imported by models."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class Speculation(models.Model):
    """A result that was worked out while somebody decided, kept aside.

    No part of the execution: nothing reads it as a task's result, and the real run takes it only
    when its own inputs turn out to be these.  Written by workflows.speculation.store alone.
    """

    class State(models.TextChoices):
        RUNNING = "RUNNING", "being worked out"
        READY = "READY", "waits for the decision"
        USED = "USED", "became the task's result"
        DROPPED = "DROPPED", "not used"
        FAILED = "FAILED", "the tool failed"
        STOPPED = "STOPPED", "given up on the way"

    execution = models.ForeignKey(
        "workflows.Execution", on_delete=models.CASCADE, related_name="speculations"
    )
    task_id = models.CharField(max_length=64)
    # Digest of task, tool, inputs and permissions: what the result hangs on.
    key = models.CharField(max_length=64)
    tool = models.CharField(max_length=200)
    # What was held when it was worked out: a tool, or the reason of a hold that has no task.
    behind = models.CharField(max_length=200)
    state = models.CharField(max_length=10, choices=State.choices, default=State.RUNNING)
    # JSON text, exactly as the tool gave it; empty when there is none (any more).
    output = models.TextField(default="", blank=True, db_default="")
    logs = models.TextField(default="", blank=True, db_default="")
    duration_ms = models.FloatField(default=0, db_default=0)
    # What went into tries that came to nothing; it only grows.
    wasted_ms = models.FloatField(default=0, db_default=0)
    # Why it was not used.
    reason = models.CharField(max_length=200, default="", blank=True, db_default="")
    # Whether it counts when hits and misses are weighed.
    counts = models.BooleanField(default=True, db_default=True)
    started_at = models.DateTimeField(db_default=Now())
    settled_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["execution", "key"], name="speculation_key_once"),
        ]
        indexes = [
            models.Index(
                fields=["execution"],
                condition=Q(state__in=["RUNNING", "READY"]) | ~Q(output=""),
                name="speculation_waits",
            ),
            models.Index(
                fields=["-settled_at"],
                condition=Q(counts=True, state__in=["USED", "DROPPED"]),
                name="speculation_weighed",
            ),
        ]
        ordering = ("id",)

    def __str__(self) -> str:
        return f"{self.task_id} ahead"
