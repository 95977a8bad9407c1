"""Checks the audit log where it is kept: both chains, and that what ran is what was approved."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from django.db.models import F, OuterRef, Q, Subquery

from workflows.engine.bounded_json import digest
from workflows.engine.policy import TriggerPhase
from workflows.models import ExecutionReceipt, TaskAttempt

from .models import HumanReviewRecord
from .receipts import record_text, verify_chain
from .records import text_of

_BATCH = 1000


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What was checked, the heads of both chains, and a line for each problem."""

    records: int
    receipts: int
    head: str
    receipts_head: str
    problems: tuple[str, ...]


def verify_audit(*, published: Collection[str] = ()) -> AuditReport:
    """Check every record and receipt; `published` are record hashes known from elsewhere."""
    rows = HumanReviewRecord.objects.order_by("id").iterator(chunk_size=_BATCH)
    records = verify_chain(rows, text_of=text_of, published=published)
    receipts = verify_chain(_receipts(), text_of=receipt_text, noun="receipt")
    problems = [
        *(f"{each.kind}: {each.message}" for each in (*records.problems, *receipts.problems)),
        *_other_than_approved(),
        *_other_than_stored(),
    ]
    return AuditReport(
        records=records.checked,
        receipts=receipts.checked,
        head=records.head,
        receipts_head=receipts.head,
        problems=tuple(problems),
    )


def receipt_text(receipt: ExecutionReceipt) -> str:
    """The canonical text made anew from the columns, which must be the text that was hashed."""
    return record_text(
        {
            "attempt": receipt.attempt,
            "decision_hash": receipt.decision_hash,
            "executed_at": receipt.executed_at,
            "executed_digest": receipt.digest,
            "execution": receipt.execution_id,
            "hold": receipt.hold_id,
            "node": receipt.task_id,
            "phase": receipt.phase,
            "sequence": receipt.sequence,
        }
    )


def _receipts() -> Iterator[ExecutionReceipt]:
    return ExecutionReceipt.objects.order_by("sequence").iterator(chunk_size=_BATCH)


def _other_than_approved() -> Iterator[str]:
    """Receipts whose decision is gone, is about something else, or approved something else."""
    decision = HumanReviewRecord.objects.filter(
        hash=OuterRef("decision_hash"),
        hold_id=OuterRef("hold_id"),
        execution_id=OuterRef("execution_id"),
        node_id=OuterRef("task_id"),
        trigger_phase=OuterRef("phase"),
        decision="APPROVE",
    )
    rows = ExecutionReceipt.objects.annotate(
        record=Subquery(decision.values("id")[:1]),
        decided=Subquery(decision.values("decided_digest")[:1]),
    )
    wrong = rows.filter(Q(record=None) | ~Q(digest=F("decided"))).order_by("sequence")
    for row, record in wrong.values_list("id", "record").iterator(chunk_size=_BATCH):
        if record is None:
            yield f"altered: receipt {row} names a decision that is not there"
        else:
            yield f"altered: receipt {row}: what ran is not what record {record} approved"


def _other_than_stored() -> Iterator[str]:
    """Receipts of tasks whose stored inputs or output are not what ran any more."""
    attempts = TaskAttempt.objects.filter(
        execution_id=OuterRef("execution_id"),
        task_id=OuterRef("task_id"),
        attempt=OuterRef("attempt"),
    )
    rows = ExecutionReceipt.objects.order_by("sequence").annotate(
        stored_inputs=Subquery(attempts.values("inputs")[:1]),
        stored_output=Subquery(attempts.values("output")[:1]),
        stored_edit=Subquery(attempts.values("edited_output")[:1]),
        was_edited=Subquery(attempts.values("is_edited")[:1]),
    )
    for row in rows.iterator(chunk_size=_BATCH):
        stored = row.stored_inputs
        if row.phase == TriggerPhase.AFTER_EXECUTION:
            stored = row.stored_edit if row.was_edited else row.stored_output
        if digest(stored) != row.digest:
            yield (
                f"altered: receipt {row.pk}: task {row.task_id} of run {row.execution_id} shows"
                " other data now than it ran with"
            )
