"""Holds: the points at which an execution waits for a decision."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol.state import HoldReason

from .choices import choices_of
from .executions import Execution


class Hold(models.Model):
    """A point at which an execution waits until a person, an agent or a timeout decides."""

    class Status(models.TextChoices):
        OPEN = "OPEN", "open"
        APPROVED = "APPROVED", "approved"
        REJECTED = "REJECTED", "rejected"
        RETURNED = "RETURNED", "sent back with changes to make"
        CLOSED = "CLOSED", "closed with its run"

    id = models.CharField(max_length=40, primary_key=True)
    execution = models.ForeignKey(Execution, on_delete=models.PROTECT, related_name="holds")
    task_id = models.CharField(max_length=64, default="", blank=True)
    reason = models.CharField(max_length=20, choices=choices_of(HoldReason))
    decider = models.CharField(max_length=10, choices=[("human", "human"), ("agent", "agent")])
    task_title = models.CharField(max_length=200, default="", db_default="", blank=True)
    phase = models.CharField(
        max_length=20, default="", blank=True, choices=choices_of(TriggerPhase)
    )
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.OPEN)
    layer = models.IntegerField()
    payload = models.JSONField(null=True)
    groups = ArrayField(models.CharField(max_length=150), default=list)
    target = models.CharField(max_length=200, default="", blank=True)
    # English text, code and parameters of a `workflows.engine.values.reasons.Reason`.
    why = models.TextField(default="", blank=True)
    why_code = models.CharField(max_length=40, default="", db_default="", blank=True)
    why_params = models.JSONField(default=dict, db_default={}, blank=True)
    instructions = models.TextField(default="", blank=True)
    critical = models.BooleanField(default=False)
    # Risk of an external action: that of its agent, policy and catalogue; "" for other tasks.
    stated_risk = models.CharField(max_length=10, blank=True, default="", db_default="")
    quorum = models.IntegerField(default=1)
    # The approvals so far: the names at that time, and the users in the same order.
    approvals = ArrayField(models.CharField(max_length=150), default=list)
    approver_ids = ArrayField(models.BigIntegerField(null=True), default=list, db_default=[])
    on_reject = models.CharField(max_length=10, default="abort")
    on_timeout = models.CharField(max_length=15, default="keep_waiting")
    opened_seq = models.BigIntegerField()
    opened_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True)
    # Reminders in seconds after the opening; how many were sent, and when the next one is due.
    reminders = models.JSONField(default=list, db_default=[])
    reminded = models.IntegerField(default=0, db_default=0)
    reminds_at = models.DateTimeField(null=True)
    # Steps as in the policy: {"after_seconds", "groups", "tell"}.
    escalation = models.JSONField(default=list, db_default=[])
    escalated = models.IntegerField(default=0, db_default=0)
    escalates_at = models.DateTimeField(null=True)
    decided_at = models.DateTimeField(null=True)
    decided_by = models.CharField(max_length=150, default="", blank=True)
    # The user; null for an agent and a timeout.
    decided_by_id = models.BigIntegerField(null=True)
    decision = models.CharField(max_length=20, default="", blank=True)
    # The revision round of this task's output; `previous` is the hold that requested changes.
    round = models.IntegerField(default=1, db_default=1)
    previous = models.OneToOneField(
        "self", null=True, on_delete=models.PROTECT, related_name="following"
    )
    # How many more times changes can be requested, including in this review.
    changes_left = models.IntegerField(default=0, db_default=0)
    # Until when the decision can be withdrawn; it takes effect after this time.
    undo_until = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["undo_until"],
                condition=Q(undo_until__isnull=False),
                name="hold_answered_by_time",
            ),
            models.Index(
                fields=["opened_at", "id"], condition=Q(status="OPEN"), name="hold_open_by_age"
            ),
            models.Index(
                fields=["expires_at"],
                condition=Q(status="OPEN", expires_at__isnull=False),
                name="hold_open_by_deadline",
            ),
            models.Index(
                fields=["reminds_at"],
                condition=Q(status="OPEN", reminds_at__isnull=False),
                name="hold_open_by_reminder",
            ),
            models.Index(
                fields=["escalates_at"],
                condition=Q(status="OPEN", escalates_at__isnull=False),
                name="hold_open_by_step",
            ),
            models.Index(
                fields=["opened_at", "id"],
                include=["execution"],
                condition=Q(status="OPEN", decider="human"),
                name="hold_for_people_by_age",
            ),
            models.Index(
                fields=["id"],
                condition=Q(status="OPEN") & ~Q(approvals=[]),
                name="hold_open_half_approved",
            ),
            models.Index(
                fields=["-decided_at", "-id"],
                condition=Q(status__in=["APPROVED", "REJECTED", "RETURNED"], decider="human"),
                name="hold_decided_by_time",
            ),
        ]
        ordering = ("opened_at", "id")
        permissions = [("decide_hold", "Can decide reviews in the admin")]
        verbose_name = "review"

    def __str__(self) -> str:
        return self.id
