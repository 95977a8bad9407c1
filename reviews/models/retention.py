"""Retention: how long data of ended runs is kept, legal holds, and the log of both."""

from __future__ import annotations

import pgtrigger
from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from workflows.common.guards import AppendOnly, Guard, NoTruncate, ReadOnly, Refuse


class RetentionPolicy(models.Model):
    """How long the data of ended runs is kept: of one workflow, or of all others.

    A policy that is not enabled erases nothing; it can be previewed.
    """

    workflow = models.OneToOneField(
        "workflows.Workflow",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="retention_policy",
        help_text="Empty: runs of workflows without an enabled policy of their own, and of plans.",
    )
    keep_days = models.PositiveIntegerField(
        "keep for (days)",
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(36_500)],
        help_text="Days from the end of a run until its data is erased. Empty: keep it forever.",
    )
    erase_records = models.BooleanField(
        "erase payloads of review records",
        default=False,
        db_default=False,
        help_text="Also erase what people saw, changed and commented. Who decided what, and when,"
        " stays.",
    )
    enabled = models.BooleanField(
        default=False, help_text="Look at the preview before you enable a policy."
    )

    class Meta:
        ordering = ("workflow__title",)
        verbose_name = "retention policy"
        verbose_name_plural = "retention policies"
        constraints = [
            models.UniqueConstraint(
                fields=["workflow"],
                nulls_distinct=False,
                name="retention_policy_once",
                violation_error_message="There is a policy for all other runs already.",
            ),
            models.CheckConstraint(
                condition=Q(keep_days=None) | Q(keep_days__gte=1), name="retention_keeps_a_day"
            ),
        ]

    def __str__(self) -> str:
        place = self.workflow.title if self.workflow else "All other runs"
        return f"{place}: {'forever' if self.keep_days is None else f'{self.keep_days} days'}"


class LegalHold(models.Model):
    """Keeps the data of one run, of all runs of a workflow, or of all calls of an MCP gate.

    It does so until it is lifted; a trigger lets a row be lifted once, and refuses other changes.
    """

    execution = models.ForeignKey(
        "workflows.Execution",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="legal_holds",
        verbose_name="run",
    )
    workflow = models.ForeignKey(
        "workflows.Workflow",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="legal_holds",
    )
    gate = models.ForeignKey(
        "workflows.Gate",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="legal_holds",
        verbose_name="MCP gate",
        help_text="Keeps its calls, and the runs of those that were held.",
    )
    reason = models.TextField(
        help_text="Such as the number of the case. Everybody who sees the run can read it."
    )
    placed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", editable=False
    )
    placed_at = models.DateTimeField(db_default=Now(), editable=False)
    lifted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        editable=False,
    )
    lifted_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ("-id",)
        verbose_name = "legal hold"
        constraints = [
            models.CheckConstraint(
                condition=Q(execution__isnull=False, workflow=None, gate=None)
                | Q(execution=None, workflow__isnull=False, gate=None)
                | Q(execution=None, workflow=None, gate__isnull=False),
                name="legal_hold_of_one_thing",
            ),
        ]
        triggers = [
            Refuse(
                name="no_delete",
                operation=pgtrigger.Delete,
                message="a legal hold is lifted, not deleted",
            ),
            ReadOnly(
                exclude=["lifted_at", "lifted_by"],
                message="a legal hold can be lifted; nothing else of it changes",
            ),
            Refuse(
                name="lifted_once",
                operation=pgtrigger.Update,
                condition=pgtrigger.Q(old__lifted_at__isnull=False)
                | pgtrigger.Q(new__lifted_at__isnull=True)
                | pgtrigger.Q(new__lifted_by__isnull=True),
                message="a legal hold can be lifted, once",
            ),
        ]

    def __str__(self) -> str:
        if self.execution_id is not None:
            return f"Run {self.execution_id}"
        if self.gate_id is not None:
            return f"MCP gate {self.gate}"
        return f"Workflow {self.workflow}"


class RetentionEntry(models.Model):
    """One action of retention.  Append-only, as records are.

    `executions` are the ids of the runs that it concerns; runs without records are deleted.
    """

    class Kind(models.TextChoices):
        POLICY_SET = "policy_set", "policy set"
        POLICY_DELETED = "policy_deleted", "policy deleted"
        HOLD_PLACED = "hold_placed", "legal hold placed"
        HOLD_LIFTED = "hold_lifted", "legal hold lifted"
        ERASED = "erased", "runs erased"

    kind = models.CharField(max_length=20, choices=Kind.choices)
    actor = models.CharField(max_length=150)
    # The policy or legal hold in words, such as "Release notes: 90 days".
    subject = models.TextField()
    executions = ArrayField(models.BigIntegerField(), default=list)
    # Erased rows by kind; for other entries the fields of the policy or hold.
    detail = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("-id",)
        verbose_name = "retention entry"
        verbose_name_plural = "retention log"
        indexes = [GinIndex(fields=["executions"], name="retention_entry_of_run")]
        triggers = [
            AppendOnly(),
            NoTruncate(),
            Guard(
                name="time_of_entry",
                operation=pgtrigger.Insert,
                func="NEW.at := statement_timestamp(); RETURN NEW;",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.subject}"


class ErasableRun(models.Model):
    """A run whose data a policy lets erase now: a view of the database.

    A draft's rows are what it would erase if it was enabled.
    """

    execution = models.OneToOneField(
        "workflows.Execution", models.DO_NOTHING, primary_key=True, related_name="+"
    )
    policy = models.ForeignKey(RetentionPolicy, models.DO_NOTHING, related_name="erasable")
    finished_at = models.DateTimeField()

    class Meta:
        managed = False
        db_table = "reviews_erasable"

    def __str__(self) -> str:
        return str(self.execution_id)
