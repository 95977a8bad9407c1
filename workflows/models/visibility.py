"""Narrow rows that triggers keep beside the wide ones, for lists and counts; imported by models."""

from __future__ import annotations

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models


class Audience(models.Model):
    """Somebody who may know of an execution: `user:<id>` started it, `group:<name>` it stops for.

    Written by triggers on executions and holds (migration 0010), so that no writer can forget it,
    and read by workflows.executions.access alone.  It only grows: whoever was asked may look back.
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
    """Somebody who shaped what a run does: who `name` is, and in which way.

    Four eyes means that none of them approves.  Written by triggers on executions and events
    (migrations 0022 and 0024), so that no writer can forget it; rows are never changed.  A fork
    takes over the starter and the shapers of the run it comes from.
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
    name = models.CharField(max_length=150)
    way = models.CharField(max_length=10, choices=Way.choices)
    # An edit shapes the holds that open after it, which is after this event's seq.
    since = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["execution", "name", "way"], name="shaper_once"),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.way} of {self.execution_id}"


class ExecutionWords(models.Model):
    """The words of an execution's title, for full text.

    Written by the trigger that writes the first row of its audience.
    """

    execution = models.OneToOneField(
        "workflows.Execution", primary_key=True, on_delete=models.CASCADE, related_name="words"
    )
    words = SearchVectorField()

    class Meta:
        indexes = [GinIndex(fields=["words"], name="execution_words")]

    def __str__(self) -> str:
        return str(self.words)


class Waiting(models.Model):
    """A hold that is open, once for each group that may decide it ("" when there is none).

    What the queue is counted by and searched in.  Written by a trigger on holds (migration 0010),
    which takes the rows away when the hold is decided.
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
