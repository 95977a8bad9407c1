"""Commands to executions, and stored responses to idempotent requests."""

from __future__ import annotations

import pgtrigger
from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from workflows.common.guards import AppendOnlyUntilErased, NoTruncate, ReadOnly


class QueuedCommand(models.Model):
    """A command that arrived while a worker held the lease; applied after the present layer."""

    execution = models.ForeignKey(
        "workflows.Execution", on_delete=models.PROTECT, related_name="commands"
    )
    command = models.JSONField()
    # The `Actor`: its name, and the ids of the user and of the token that they acted with.
    actor = models.CharField(max_length=150)
    actor_id = models.BigIntegerField(null=True)
    token_id = models.BigIntegerField(null=True)
    source = models.CharField(max_length=20)
    created_at = models.DateTimeField(db_default=Now())
    taken_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["execution", "id"], condition=Q(taken_at__isnull=True), name="command_waits"
            ),
        ]
        triggers = [
            AppendOnlyUntilErased(operation=pgtrigger.Delete),
            NoTruncate(),
            ReadOnly(exclude=["taken_at"], message="a command is append-only"),
            ReadOnly(
                name="taken_once",
                fields=["taken_at"],
                unless="OLD.taken_at IS NULL",
                message="a command is append-only: it is marked as taken once",
            ),
        ]
        ordering = ("id",)

    def __str__(self) -> str:
        return f"command {self.pk}"


class CommandLog(models.Model):
    """A received command: sender, time, source and outcome."""

    execution = models.ForeignKey(
        "workflows.Execution", on_delete=models.PROTECT, related_name="command_log"
    )
    kind = models.CharField(max_length=30)
    actor = models.CharField(max_length=150)
    # The user; null for an agent and the product itself.
    actor_id = models.BigIntegerField(null=True)
    source = models.CharField(max_length=20)
    outcome = models.CharField(max_length=10)
    # Why it was refused.  A text of Holdpoint has a code and parameters, see
    # `workflows.engine.values.reasons`.
    detail = models.TextField(default="", blank=True)
    detail_code = models.CharField(max_length=40, default="", blank=True, db_default="")
    detail_params = models.JSONField(default=dict, blank=True, db_default={})
    version = models.BigIntegerField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("-id",)
        verbose_name = "command"
        triggers = [AppendOnlyUntilErased(), NoTruncate()]

    def __str__(self) -> str:
        return f"command {self.pk}"


class IdempotencyKey(models.Model):
    """The stored response to a request with an `Idempotency-Key`."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    # Digest of the caller's token and its limits, "" for a session.
    credential = models.CharField(max_length=64, default="", db_default="")
    key = models.CharField(max_length=200)
    route = models.CharField(max_length=200)
    body_digest = models.CharField(max_length=64)
    status = models.IntegerField(null=True)
    answer = models.JSONField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "credential", "key", "route"], name="idempotency_key_once"
            ),
        ]
        # The sweeper deletes old rows in each round.
        indexes = [models.Index(fields=["created_at"], name="idempotency_key_by_time")]

    def __str__(self) -> str:
        return self.key
