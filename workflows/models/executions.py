"""Executions with their plans, events, task attempts, checkpoints and receipts.

Only workflows.journal.writer writes these rows.
"""

from __future__ import annotations

import pgtrigger
from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from workflows.common.guards import (
    IS_OWNER,
    AppendOnly,
    AppendOnlyUntilErased,
    NoTruncate,
    ReadOnly,
    Refuse,
    Transitions,
)
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol.actors import Actor
from workflows.engine.protocol.state import SkipReason
from workflows.engine.protocol.status import TRANSITIONS, ExecutionStatus, TaskStatus

from .choices import choices_of
from .workflows import Workflow

_LIVE = (ExecutionStatus.PENDING, ExecutionStatus.RUNNING)
#: Events that change what the queue or the list of runs shows.
QUEUE_KINDS = (
    "execution_started", "hold_opened", "hold_voted", "hold_answered", "hold_withdrawn",
    "hold_decided", "hold_expired",
    "hold_extended", "hold_escalated", "execution_completed", "execution_failed",
    "execution_aborted",
)  # fmt: skip
#: Statuses of executions that have not ended.
UNDER_WAY = tuple(each.value for each in ExecutionStatus if not each.is_final)


class Execution(models.Model):
    """One run of a plan: its control state, its version and its lease."""

    workflow = models.ForeignKey(
        Workflow,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="executions",
        db_index=False,  # execution_of_workflow begins with it
    )
    title = models.CharField(max_length=200)
    status = models.CharField(
        max_length=20, choices=choices_of(ExecutionStatus), default=ExecutionStatus.PENDING
    )
    version = models.BigIntegerField(default=0, db_default=0)
    revision = models.IntegerField(default=1, db_default=1)
    layer = models.IntegerField(default=-1, db_default=-1)
    total_layers = models.IntegerField(default=0, db_default=0)
    state = models.JSONField(default=dict)
    inputs = models.JSONField(default=dict)
    context = models.JSONField(default=dict)
    policy = models.JSONField(default=dict)
    # Differences from the workflow's policy: field, from, to, loosens, by.
    policy_overrides = models.JSONField(default=list, db_default=[])
    # A text of Holdpoint has a code and parameters, see `workflows.engine.values.reasons`.
    error = models.TextField(default="", blank=True)
    error_code = models.CharField(max_length=40, default="", db_default="", blank=True)
    error_params = models.JSONField(default=dict, db_default={}, blank=True)
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="forks")
    forked_at_layer = models.IntegerField(null=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, "+", null=True, db_index=False
    )
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)
    # When retention erased the data of the run; only `holdpoint_erase` of the database sets it.
    erased_at = models.DateTimeField(null=True, editable=False)
    # The lease of a worker.  `fence` grows with every claim, so writes of an earlier holder fail.
    lease_owner = models.CharField(max_length=100, default="", db_default="")
    lease_until = models.DateTimeField(null=True)
    fence = models.BigIntegerField(default=0, db_default=0)
    # Claims in a row that expired before a step was recorded.  An expired lease is counted when
    # the next worker claims the execution or the sweeper finds it.
    lost_claims = models.IntegerField(default=0, db_default=0)
    # When there is work again (after a retry's backoff); null means now.
    wake_at = models.DateTimeField(null=True)
    dispatched_at = models.DateTimeField(db_default=Now())
    queued_commands = models.IntegerField(default=0, db_default=0)
    abort_requested = models.BooleanField(default=False, db_default=False)

    class Meta:
        ordering = ("-id",)
        permissions = [("loosen_policy", "Can start runs with a looser policy than asked for")]
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=[status.value for status in ExecutionStatus]),
                name="execution_known_status",
            ),
        ]
        indexes = [
            models.Index(
                fields=["dispatched_at"],
                condition=Q(status__in=[each.value for each in _LIVE]) | Q(queued_commands__gt=0),
                name="execution_outbox",
            ),
            models.Index(fields=["created_by", "-id"], name="execution_by_creator"),
            models.Index(fields=["status", "-id"], name="execution_by_status"),
            # With the column that hides erased runs, so that a count reads the index alone.
            models.Index(
                fields=["workflow", "-id"], include=["erased_at"], name="execution_of_workflow"
            ),
            # Running executions share one key, so no step of an execution updates this index.
            models.Index(fields=["finished_at", "id"], name="execution_by_end"),
            # For retention; running and erased executions are not in it.
            models.Index(
                fields=["finished_at", "id"],
                condition=Q(finished_at__isnull=False, erased_at=None),
                name="execution_not_erased",
            ),
            models.Index(
                fields=["created_by"],
                condition=Q(status__in=UNDER_WAY),
                name="execution_live_by_creator",
            ),
        ]
        triggers = [
            Transitions(
                name="status_transitions",
                field="status",
                transitions=[
                    (old.value, new.value)
                    for old in TRANSITIONS
                    for new in sorted(TRANSITIONS[old])
                ],
                condition=pgtrigger.AnyChange("status"),
            ),
            Refuse(
                name="version_grows",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition(
                    "NEW.version < OLD.version OR NEW.version = OLD.version AND ("
                    "NEW.status <> OLD.status OR NEW.state IS DISTINCT FROM OLD.state)"
                ),
                message="the version must grow with every change",
                error="check_violation",
            ),
            ReadOnly(
                name="workflow_stays",
                fields=["workflow"],
                unless=IS_OWNER,
                message="the workflow of a run never changes",
            ),
            Refuse(
                name="ends_once",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition(
                    "NEW.finished_at IS DISTINCT FROM OLD.finished_at"
                    " AND (OLD.finished_at IS NOT NULL OR NEW.finished_at < now())"
                ),
                unless=IS_OWNER,
                message="the end of a run is written once, when it ends",
            ),
            ReadOnly(
                name="erased_once",
                fields=["erased_at"],
                unless=f"OLD.erased_at IS NULL AND {IS_OWNER}",
                message="only holdpoint_erase marks a run as erased, once",
            ),
        ]
        verbose_name = "run"

    def __str__(self) -> str:
        return f"{self.title} #{self.pk}"


class PlanRevision(models.Model):
    """A version of an execution's plan, with its layers.  Rows are never changed."""

    execution = models.ForeignKey(Execution, models.PROTECT, "revisions", db_index=False)
    number = models.IntegerField()
    plan = models.JSONField()
    layers = models.JSONField()
    cause = models.CharField(max_length=20, default="start")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["execution", "number"], name="revision_number_once"),
        ]
        triggers = [AppendOnlyUntilErased(), NoTruncate()]
        ordering = ("number",)

    def __str__(self) -> str:
        return f"revision {self.number}"


class ExecutionEvent(models.Model):
    """A recorded fact.  `seq` is contiguous per execution; rows are append-only."""

    execution = models.ForeignKey(Execution, models.PROTECT, "events", db_index=False)
    seq = models.BigIntegerField()
    kind = models.CharField(max_length=40)
    payload = models.JSONField()
    # The name of the actor at that time, and the user; null for an agent and the product itself.
    actor = models.CharField(max_length=150, default="", blank=True)
    actor_id = models.BigIntegerField(null=True)
    source = models.CharField(max_length=20, default="", blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["execution", "seq"], name="event_seq_once"),
        ]
        indexes = [
            models.Index(
                fields=["-id"], condition=Q(kind="review_spared"), name="event_review_spared"
            ),
            models.Index(
                fields=["created_at"],
                condition=Q(kind__in=QUEUE_KINDS),
                name="event_of_queue_by_time",
            ),
        ]
        triggers = [AppendOnlyUntilErased(), NoTruncate()]
        ordering = ("execution_id", "seq")

    def __str__(self) -> str:
        return f"{self.seq} {self.kind}"

    @property
    def by(self) -> Actor:
        return Actor(self.actor, self.actor_id)


class TaskAttempt(models.Model):
    """One recorded attempt of a task: its inputs and its outcome."""

    execution = models.ForeignKey(Execution, models.PROTECT, "attempts", db_index=False)
    task_id = models.CharField(max_length=64)
    attempt = models.IntegerField()
    layer = models.IntegerField()
    revision = models.IntegerField()
    status = models.CharField(max_length=10, choices=choices_of(TaskStatus))
    skip_reason = models.CharField(
        max_length=20, default="", blank=True, choices=choices_of(SkipReason)
    )
    # False for a failed attempt that will be repeated.
    settled = models.BooleanField()
    inputs = models.JSONField(null=True)
    output = models.JSONField(null=True)
    # The output as a reviewer edited it; later tasks read it instead if `is_edited`.
    edited_output = models.JSONField(null=True)
    is_edited = models.BooleanField(default=False, db_default=False)
    # A text of Holdpoint has a code and parameters, see `workflows.engine.values.reasons`.
    error = models.TextField(default="", blank=True)
    error_code = models.CharField(max_length=40, default="", db_default="", blank=True)
    error_params = models.JSONField(default=dict, db_default={}, blank=True)
    logs = models.TextField(default="", blank=True)
    duration_ms = models.FloatField(default=0)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["execution", "task_id", "attempt"], name="attempt_recorded_once"
            ),
            models.UniqueConstraint(
                fields=["execution", "task_id"],
                condition=Q(settled=True),
                name="task_settled_once",
            ),
        ]
        ordering = ("layer", "task_id", "attempt")

    def __str__(self) -> str:
        return f"{self.task_id} try {self.attempt}"


class Checkpoint(models.Model):
    """The position after a layer from which an execution can be forked."""

    execution = models.ForeignKey(Execution, models.PROTECT, "checkpoints", db_index=False)
    layer = models.IntegerField()
    version = models.BigIntegerField()
    revision = models.IntegerField()
    context = models.JSONField()
    state = models.JSONField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["execution", "layer"], name="checkpoint_layer_once"),
        ]
        ordering = ("-layer",)

    def __str__(self) -> str:
        return f"after layer {self.layer + 1}"


class ExecutionReceipt(models.Model):
    """Proof of what ran after a person approved it; append-only, and chained by hash.

    The journal writes it in the step that records the attempt (for a review before the task:
    `digest` is that of the task's inputs) or that closes the layer (for a review of the output:
    `digest` is that of the output later tasks read).  A trigger of the reviews app fills the
    columns from `sequence` on, and links the row to the audit record of the decision by its hash.
    """

    execution = models.ForeignKey(Execution, on_delete=models.PROTECT, related_name="receipts")
    hold = models.ForeignKey(
        "workflows.Hold", on_delete=models.PROTECT, related_name="receipts", db_index=False
    )
    task_id = models.CharField(max_length=64)
    attempt = models.IntegerField()
    phase = models.CharField(max_length=20, choices=choices_of(TriggerPhase))
    digest = models.CharField(max_length=64)
    sequence = models.BigIntegerField(unique=True)
    executed_at = models.DateTimeField()
    decision_hash = models.CharField(max_length=64, db_index=True)
    canonical = models.TextField()
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64, unique=True)

    class Meta:
        ordering = ("sequence",)
        constraints = [
            models.UniqueConstraint(fields=["hold", "attempt"], name="receipt_once_per_attempt"),
        ]
        triggers = [AppendOnly(), NoTruncate()]

    def __str__(self) -> str:
        return f"{self.task_id} try {self.attempt}: {self.digest[:12]}"


class LearningAttempt(models.Model):
    """Attempts of workers to learn from an ended execution; the row is deleted after learning.

    It is written outside the learning transaction, so that the attempt of a killed worker counts.
    """

    execution = models.OneToOneField("Execution", models.CASCADE, primary_key=True)
    attempts = models.IntegerField()
    begun_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.execution_id}: {self.attempts}"
