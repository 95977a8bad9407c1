"""Speculative results."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class Speculation(models.Model):
    """A task's result that was computed while a decision was pending.

    It is not part of the execution, which uses it only if the task's inputs turn out to be equal.
    Only workflows.speculation.store writes it.
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
    # Digest of task, tool, inputs and permissions, which determine the result.
    key = models.CharField(max_length=64)
    tool = models.CharField(max_length=200)
    # The held tool, or the reason of a hold without a task.
    behind = models.CharField(max_length=200)
    # Id of the hold whose decision shows whether the result is used; "" before this was stored.
    hold = models.CharField(max_length=40, default="", blank=True, db_default="")
    state = models.CharField(max_length=10, choices=State.choices, default=State.RUNNING)
    # JSON text of the tool's output; empty if there is none, or after it was used or dropped.
    output = models.TextField(default="", blank=True, db_default="")
    logs = models.TextField(default="", blank=True, db_default="")
    duration_ms = models.FloatField(default=0, db_default=0)
    # Time of attempts whose result was not used; it never decreases.
    wasted_ms = models.FloatField(default=0, db_default=0)
    # Why it was not used.
    reason = models.CharField(max_length=200, default="", blank=True, db_default="")
    # Whether the policy counts it among hits and misses.
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
