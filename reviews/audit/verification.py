"""Verify the audit log in the database: chains, signatures, heads and executed data."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from django.db import connection
from django.db.models import (
    BooleanField,
    Exists,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
)

from reviews.models import HumanReviewRecord, PayloadKey, RetentionEntry
from workflows.common.keyset import in_batches
from workflows.common.secret_encryption import DecryptionFailed
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.values.bounded_json import digest
from workflows.models import Approval, Execution, ExecutionReceipt, TaskAttempt

from .chain import record_text, verify_chain
from .records import canonical_text

_BATCH = 1000


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The number of checked rows, the heads of both chains, and one line per problem.

    `signed` counts verified signatures, None without a key.  `reported` has one line per agent that
    reported other arguments than people approved: the log is whole, and shows it.
    """

    records: int
    receipts: int
    head: str
    receipts_head: str
    signed: int | None
    problems: tuple[str, ...]
    reported: tuple[str, ...] = ()


class CannotCheck(Exception):
    """The given heads cannot be checked; the message gives the reason."""


def verify_audit(
    *,
    published: Collection[str] = (),
    keys: Collection[str] = (),
    heads: Collection[str] | None = None,
    max_age: timedelta = timedelta(minutes=10),
) -> AuditReport:
    """Check every record and receipt.

    Args:
        published: record hashes known from elsewhere.
        keys: public keys for the signatures.
        heads: lines of signed heads.
        max_age: the maximum age of the newest head.

    Raises:
        CannotCheck: the heads cannot be checked.
    """
    signatures = _Signatures(keys, heads)
    unreadable: list[str] = []

    def text_of(row: HumanReviewRecord) -> str:
        try:
            return canonical_text(row)
        except DecryptionFailed:
            unreadable.append(
                f"unreadable: the payload of record {row.pk} cannot be decrypted with SECRET_KEY"
            )
            return row.canonical

    # Read the ends first: rows added during the check are not compared with the heads.
    now, last_receipt, last_record = _ends()
    rows = HumanReviewRecord.objects.filter(pk__lte=last_record).with_keys()
    stored_receipts = ExecutionReceipt.objects.filter(sequence__lte=last_receipt)
    records = verify_chain(
        signatures.of_records(in_batches(rows, by="id", size=_BATCH)),
        text_of=text_of,
        published=published,
    )
    receipts = verify_chain(
        signatures.of_receipts(in_batches(stored_receipts, by="sequence", size=_BATCH)),
        text_of=receipt_text,
        noun="receipt",
    )
    problems = [
        *(f"{each.kind}: {each.message}" for each in (*records.problems, *receipts.problems)),
        *unreadable,
        *signatures.end(now, max_age),
        *_unapproved_receipts(),
        *_changed_task_data(),
        *_erased_without_entry(),
    ]
    return AuditReport(
        records=records.checked,
        receipts=receipts.checked,
        head=records.head,
        receipts_head=receipts.head,
        signed=signatures.signed if keys else None,
        problems=tuple(problems),
        reported=tuple(_reported_otherwise()),
    )


def _ends() -> tuple[datetime, int, int]:
    """Return the database time, the newest receipt's sequence and the newest record's id."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT clock_timestamp(),"
            " (SELECT coalesce(max(sequence), 0) FROM workflows_executionreceipt),"
            " (SELECT coalesce(max(id), 0) FROM reviews_humanreviewrecord)"
        )
        now, receipt, record = cursor.fetchone()
    return now, receipt, record


class _Signatures:
    """Checks signatures and heads with the code of the standalone verifier."""

    def __init__(self, keys: Collection[str], heads: Collection[str] | None) -> None:
        standalone = _standalone()
        self.signed = 0
        self._standalone = standalone
        self._problems: list[str] = []
        self._numbers = [0, 0]
        try:
            self._keys = standalone.Keys(keys) if keys else None
            if heads is not None and self._keys is None:
                raise CannotCheck("heads are checked by their signatures, and there is no key")
            self._heads = None if heads is None else standalone.Heads(heads, self._keys)
        except standalone.CannotCheck as reason:
            raise CannotCheck(str(reason)) from None

    def of_records(self, rows: Iterable[HumanReviewRecord]) -> Iterator[HumanReviewRecord]:
        for row in rows:
            number = self._meet(0, f"record {row.pk}", row.canonical, row.hash, row.reviewed_at)
            self._check_signature(row, number)
            yield row

    def of_receipts(self, rows: Iterable[ExecutionReceipt]) -> Iterator[ExecutionReceipt]:
        for row in rows:
            self._meet(1, f"receipt {row.pk}", row.canonical, row.hash, row.executed_at)
            yield row

    def end(self, now: datetime, max_age: timedelta) -> list[str]:
        if self._keys and self._numbers[0] and not self.signed:
            self._check_unsigned()
        if self._heads is not None:
            self._heads.end(tuple(self._numbers), now, max_age)
            self._problems += [f"heads: {each}" for each in self._heads.problems]
        return self._problems

    def _check_unsigned(self) -> None:
        """If no record is signed, a signed head must prove that all are older than the key."""
        nothing = f"unsigned: {self._standalone.NONE_SIGNED}"
        if self._heads is None:
            self._problems.append(f"{nothing}: {self._standalone.GIVE_HEADS}")
        elif self._heads.fits[0] < self._numbers[0]:
            self._problems.append(f"{nothing}, and the signed heads do not show it")

    def _check_signature(self, row: HumanReviewRecord, number: int) -> None:
        if self._keys is None:
            return
        if row.signature:
            self.signed += 1
            if not self._keys.has_signed("record", row.hash, row.signature):
                self._problems.append(f"unsigned: record {row.pk} was not signed by a known key")
        elif self.signed:
            message = f"unsigned: record {row.pk} is not signed, though records before it are"
            self._problems.append(message)
        elif self._heads is not None and self._standalone.is_younger(number, self._heads):
            message = f"unsigned: record {row.pk} is not signed, though a head from before it is"
            self._problems.append(message)

    def _meet(self, index: int, name: str, text: str, row_hash: str, at: datetime) -> int:
        try:
            number = int(json.loads(text)["sequence"])
        except (ValueError, KeyError, TypeError):
            number = self._numbers[index] + 1  # the chain's own check names this row
        self._numbers[index] = number
        if self._heads is not None:
            self._heads.add(index, name, number, row_hash, at)
        return number


# One module per process, never invalidated: the file is part of the release.
@lru_cache(maxsize=1)
def _standalone() -> ModuleType:
    """Import the verifier that auditors download."""
    path = Path(__file__).parents[1] / "static/reviews/verify_history.py"
    spec = spec_from_file_location("holdpoint_verify_history", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def receipt_text(receipt: ExecutionReceipt) -> str:
    """Rebuild the canonical text from the columns; it must equal the hashed text."""
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


def with_decision(rows: QuerySet[ExecutionReceipt]) -> QuerySet[Any]:
    """Annotate receipts with their `record`, what it `decided`, and whether it is `reported`.

    The caller of an external action reports which arguments it executed.  Holdpoint cannot compare
    that with what happened, and a difference is a finding about the caller.
    """
    decision = HumanReviewRecord.objects.filter(
        hash=OuterRef("decision_hash"),
        hold_id=OuterRef("hold_id"),
        execution_id=OuterRef("execution_id"),
        node_id=OuterRef("task_id"),
        trigger_phase=OuterRef("phase"),
        decision="APPROVE",
    )
    approvals = Approval.objects.filter(execution=OuterRef("execution_id"))
    return rows.annotate(
        record=Subquery(decision.values("id")[:1]),
        decided=Subquery(decision.values("decided_digest")[:1]),
        reported=ExpressionWrapper(
            Exists(approvals) & Q(phase=TriggerPhase.BEFORE_EXECUTION.value), BooleanField()
        ),
    )


def _unapproved_receipts() -> Iterator[str]:
    """Report receipts whose decision is missing or approved other data."""
    rows = with_decision(ExecutionReceipt.objects.order_by("sequence"))
    wrong = rows.filter(Q(record=None) | (~Q(digest=F("decided")) & Q(reported=False)))
    for row, record in wrong.values_list("id", "record").iterator(chunk_size=_BATCH):
        if record is None:
            yield f"altered: receipt {row} names a decision that is not there"
        else:
            yield f"altered: receipt {row}: what ran is not what record {record} approved"


def _reported_otherwise() -> Iterator[str]:
    """Name the agents that reported other arguments than people approved."""
    rows = with_decision(ExecutionReceipt.objects.order_by("sequence"))
    other = rows.filter(reported=True, record__isnull=False).exclude(digest=F("decided"))
    found = other.values_list("id", "record", "execution_id")
    for row, record, run in found.iterator(chunk_size=_BATCH):
        yield (
            f"REPORTED: receipt {row}: the agent of run {run} reported that it executed other"
            f" arguments than record {record} approved"
        )


def _erased_without_entry() -> Iterator[str]:
    """Report erased runs and payloads of records that the retention log does not name."""
    entries = RetentionEntry.objects.filter(
        kind=RetentionEntry.Kind.ERASED, executions__contains=[OuterRef("pk")]
    )
    rows = Execution.objects.filter(~Exists(entries), erased_at__isnull=False)
    for pk in rows.values_list("pk", flat=True).iterator(chunk_size=_BATCH):
        yield f"erased: the retention log has no entry about the erased run {pk}"
    keys = PayloadKey.objects.filter(execution=OuterRef("pk"))
    sealed = HumanReviewRecord.objects.filter(execution=OuterRef("pk")).exclude(sealed="")
    plain = HumanReviewRecord.objects.filter(execution=OuterRef("pk"), sealed="")
    emptied = plain.filter(stored_original__isnull=True).exclude(shown_digest=digest(None))
    rows = Execution.objects.filter(
        Q(Exists(sealed) & ~Exists(keys)) | Exists(emptied),
        ~Exists(entries.filter(detail__records_erased=True)),
    )
    for pk in rows.values_list("pk", flat=True).iterator(chunk_size=_BATCH):
        yield f"erased: the retention log does not say that the records of run {pk} were erased"


def _changed_task_data() -> Iterator[str]:
    """Report receipts that differ from the stored inputs or output of their task."""
    attempts = TaskAttempt.objects.filter(
        execution_id=OuterRef("execution_id"),
        task_id=OuterRef("task_id"),
        attempt=OuterRef("attempt"),
    )
    rows = with_decision(ExecutionReceipt.objects.all()).annotate(
        stored_inputs=Subquery(attempts.values("inputs")[:1]),
        stored_output=Subquery(attempts.values("output")[:1]),
        stored_edit=Subquery(attempts.values("edited_output")[:1]),
        was_edited=Subquery(attempts.values("is_edited")[:1]),
    )
    # Retention deletes the data of a task with its run.
    rows = rows.exclude(~Exists(attempts), execution__erased_at__isnull=False)
    for row in in_batches(rows, by="sequence", size=_BATCH):
        stored = row.stored_inputs
        if row.phase == TriggerPhase.AFTER_EXECUTION:
            stored = row.stored_edit if row.was_edited else row.stored_output
        # A reported digest is what the agent says; the stored inputs are what people approved.
        expected = row.decided if row.reported else row.digest
        if digest(stored) != expected:
            yield (
                f"altered: receipt {row.pk}: task {row.task_id} of run {row.execution_id} shows"
                " other data now than it ran with"
            )
