"""Read retention: previews of policies, legal holds of a run, and when a run was erased."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import models
from django.db.models import Count, Max, Min, Q

from reviews.models import (
    ClaimStart,
    ErasableRun,
    HumanReviewRecord,
    LegalHold,
    Notice,
    RetentionEntry,
    RetentionPolicy,
    ReviewClaim,
    ReviewPresence,
    SlackMessage,
)
from workflows.models import (
    Checkpoint,
    CommandLog,
    Execution,
    ExecutionEvent,
    GateCall,
    LearningAttempt,
    PlanRevision,
    QueuedCommand,
    Shaper,
    Speculation,
    TaskAttempt,
    WebhookDelivery,
)

#: Rows are counted for the oldest runs only: a policy may cover millions of rows.
PREVIEWED_RUNS: Final = 1000
#: What `holdpoint_erase` deletes, by the name of the count: the model, and the way from its rows to
#: their run. The words of the full-text search and who sees a run go with it and are not counted.
DELETED: Final[dict[str, tuple[type[models.Model], str]]] = {
    "events": (ExecutionEvent, "execution"),
    "plan versions": (PlanRevision, "execution"),
    "task attempts": (TaskAttempt, "execution"),
    "checkpoints": (Checkpoint, "execution"),
    "commands": (CommandLog, "execution"),
    "queued commands": (QueuedCommand, "execution"),
    "speculative results": (Speculation, "execution"),
    "learning attempts": (LearningAttempt, "execution"),
    "shapers": (Shaper, "execution"),
    "notices": (Notice, "execution"),
    "webhook deliveries": (WebhookDelivery, "execution"),
    "claims": (ReviewClaim, "hold__execution"),
    "times of claims": (ClaimStart, "hold__execution"),
    "open review pages": (ReviewPresence, "hold__execution"),
    "Slack messages": (SlackMessage, "hold__execution"),
    "gate calls": (GateCall, "approval__execution"),
}


@dataclass(frozen=True, slots=True)
class Preview:
    """What a policy erases now.

    `rows` are counts by kind for the oldest `counted` runs; `records` is the number of audit
    records of these runs, which are kept.
    """

    runs: int
    oldest: datetime | None
    newest: datetime | None
    counted: int
    rows: dict[str, int]
    records: int


def preview(policy: RetentionPolicy) -> Preview:
    """Return what a stored policy would erase now, also if it is not enabled."""
    due = ErasableRun.objects.filter(policy=policy)
    totals = due.aggregate(
        runs=Count("execution"), oldest=Min("finished_at"), newest=Max("finished_at")
    )
    ids = list(due.order_by("finished_at").values_list("execution_id", flat=True)[:PREVIEWED_RUNS])
    return Preview(
        runs=totals["runs"],
        oldest=totals["oldest"],
        newest=totals["newest"],
        counted=len(ids),
        rows={
            name: model._default_manager.filter(**{f"{way}__in": ids}).count()
            for name, (model, way) in DELETED.items()
        },
        records=HumanReviewRecord.objects.filter(execution__in=ids).count(),
    )


def legal_holds_of(execution: Execution) -> list[LegalHold]:
    """Return the legal holds that keep the data of a run, oldest first."""
    covering = Q(execution=execution) | Q(gate__calls__approval__execution=execution)
    if execution.workflow_id is not None:
        covering |= Q(workflow=execution.workflow_id)
    keys = LegalHold.objects.filter(covering, lifted_at=None).values("pk")
    rows = LegalHold.objects.filter(pk__in=keys)
    return list(rows.select_related("placed_by", "workflow", "gate").order_by("id"))


def erasure_of(execution_id: int) -> RetentionEntry | None:
    """Return the entry about the erasure of a run; None if it was not erased."""
    entries = RetentionEntry.objects.filter(
        kind=RetentionEntry.Kind.ERASED, executions__contains=[execution_id]
    )
    return entries.first()


def record_erasure_of(execution_id: int) -> RetentionEntry | None:
    """Return the entry that says that the payloads of a run's records were erased."""
    entries = RetentionEntry.objects.filter(
        kind=RetentionEntry.Kind.ERASED,
        executions__contains=[execution_id],
        detail__records_erased=True,
    )
    return entries.first()
