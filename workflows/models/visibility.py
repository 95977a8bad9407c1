"""Narrow tables that the journal maintains, for lists, counts and rights."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models

from workflows.common.guards import AppendOnlyUntilErased, NoTruncate


class Audience(models.Model):
    """A member who may see an execution: the starter as `user:<id>`, groups as `group:<name>`.

    The journal writes it with executions and holds; only workflows.executions.access reads it.
    Rows are never deleted, so groups of closed holds still see the execution.
    """

    pk = models.CompositePrimaryKey("execution_id", "member")
    execution = models.ForeignKey(
        "workflows.Execution", on_delete=models.CASCADE, related_name="audience", db_index=False
    )
    member = models.CharField(max_length=160)

    class Meta:
        indexes = [models.Index(fields=["member", "execution"], name="audience_by_member")]

    def __str__(self) -> str:
        return f"{self.member} of {self.execution_id}"


class Shaper(models.Model):
    """A user who influenced what an execution does, and in which way.

    With four-eyes review, none of them may approve.  `workflows.journal.shapers` makes the rows
    from events; they are never changed.  A fork copies the rows of the execution it was forked
    from.
    """

    class Way(models.TextChoices):
        START = "start", "started the run"
        PLAN = "plan", "changed the plan"
        REPLAN = "replan", "asked for a plan change"
        SKIP = "skip", "skipped a layer"
        CONTEXT = "context", "changed the context"
        ASKED = "asked", "wrote to the agent"
        EDIT = "edit", "edited what a task works with"
        ORIGIN = "origin", "started or shaped a run that this one is a fork of"

    execution = models.ForeignKey(
        "workflows.Execution", on_delete=models.CASCADE, related_name="shapers", db_index=False
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    way = models.CharField(max_length=10, choices=Way.choices)
    # An edit concerns the holds that open after the event with this seq.
    since = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["execution", "user", "way"], name="shaper_once"),
        ]
        indexes = [
            # Lists leave out what a person shaped: without it, they read the rows of everybody.
            models.Index(fields=["user", "execution"], name="shaper_by_user"),
        ]
        triggers = [AppendOnlyUntilErased(), NoTruncate()]

    def __str__(self) -> str:
        return f"{self.user_id}: {self.way} of {self.execution_id}"


class ExecutionWords(models.Model):
    """The full-text vector of an execution's title."""

    execution = models.OneToOneField(
        "workflows.Execution", primary_key=True, on_delete=models.CASCADE, related_name="words"
    )
    words = SearchVectorField()

    class Meta:
        indexes = [GinIndex(fields=["words"], name="execution_words")]

    def __str__(self) -> str:
        return str(self.words)


class Waiting(models.Model):
    """An open hold, one row per group that may decide it ("" if there is none).

    The review queue counts and searches these rows.  The journal writes them when a hold opens, and
    deletes them when it is decided.
    """

    pk = models.CompositePrimaryKey("hold_id", "group")
    hold = models.ForeignKey(
        "workflows.Hold", on_delete=models.CASCADE, related_name="waiting", db_index=False
    )
    execution = models.ForeignKey(
        "workflows.Execution", on_delete=models.CASCADE, related_name="waiting", db_index=False
    )
    group = models.CharField(max_length=150)
    # Of the run's title, the task, the tool and the reason.
    words = SearchVectorField()

    class Meta:
        indexes = [
            models.Index(fields=["group", "hold"], include=["execution"], name="waiting_by_group"),
            GinIndex(fields=["words"], name="waiting_words"),
        ]

    def __str__(self) -> str:
        return f"{self.hold_id} waits for {self.group}"
