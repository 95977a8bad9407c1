"""Write the audit log: one record per decision, chained by hash to the previous one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import connection

from reviews.components.json_diffs import diff
from reviews.models import HumanReviewRecord
from workflows.models import Hold

from .chain import GENESIS, digests, record_hash, record_text
from .signing import sign

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Key of the advisory lock that serializes the chain.  Taken last, after the execution's row.
CHAIN_LOCK = 0x486F6C64


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionEntry:
    """A decision to record: `modified` is the whole edited payload, `version` the new version."""

    decision: str
    actor: str
    reviewer: User | None
    source: str
    version: int
    comment: str = ""
    edited: bool = False
    modified: Any = None
    withdraws: HumanReviewRecord | None = None


def write_record(hold: Hold, verdict: DecisionEntry) -> HumanReviewRecord:
    """Append a record to the chain, in the caller's transaction.

    `hold` is the hold as shown to the reviewer, with its execution and workflow loaded.
    """
    head = _head()
    decided = verdict.modified if verdict.edited else hold.payload
    signed = digests(hold.payload, decided)
    record = HumanReviewRecord(
        execution_id=hold.execution_id,
        hold=hold,
        node_id=hold.task_id,
        workflow_title=hold.execution.title,
        reason=hold.reason,
        trigger_phase=hold.phase,
        target=hold.target,
        reviewer=verdict.reviewer,
        actor=verdict.actor,
        source=verdict.source,
        decision=verdict.decision,
        original_data=hold.payload,
        modified_data=verdict.modified if verdict.edited else None,
        is_edited=verdict.edited,
        change_count=len(diff(hold.payload, decided)),
        comment=verdict.comment,
        version=verdict.version,
        waited_seconds=max(0.0, round((head.moment - hold.opened_at).total_seconds(), 3)),
        reviewed_at=head.moment,
        shown_digest=signed.shown,
        decided_digest=signed.decided,
        previous_hash=head.hash,
        withdraws=verdict.withdraws,
    )
    record.canonical = record_text(record_content(record, head.sequence + 1))
    record.hash = record_hash(head.hash, record.canonical)
    record.signature = sign("record", record.hash)
    record.save(force_insert=True)
    return record


@dataclass(frozen=True, slots=True)
class _Head:
    """The end of the chain and the database time."""

    hash: str
    sequence: int
    moment: datetime


_LOCK_AND_LOOK = """
SELECT pg_advisory_xact_lock(%s);
SELECT clock_timestamp(), hash, canonical::json ->> 'sequence'
  FROM (VALUES (1)) AS one LEFT JOIN LATERAL (
       SELECT hash, canonical FROM reviews_humanreviewrecord
        ORDER BY id DESC LIMIT 1) AS newest ON true
"""


def _head() -> _Head:
    """Lock the chain until the transaction ends and return its end."""
    with connection.cursor() as cursor:
        # Two statements in one message: the snapshot of the second must be newer than the lock.
        cursor.execute(_LOCK_AND_LOOK, [CHAIN_LOCK])
        cursor.nextset()
        moment, newest, sequence = cursor.fetchone()
    return _Head(newest or GENESIS, int(sequence or 0), moment)


def canonical_text(record: HumanReviewRecord) -> str:
    """Rebuild the canonical text from the columns; it must equal the hashed text."""
    decided = record.modified_data if record.is_edited else record.original_data
    signed = digests(record.original_data, decided)
    stored = record_content(record, json.loads(record.canonical).get("sequence", 0))
    return record_text({**stored, "shown_digest": signed.shown, "decided_digest": signed.decided})


def record_content(record: HumanReviewRecord, sequence: int) -> dict[str, Any]:
    """Return the hashed fields, payloads as digests; only a withdrawal has `withdraws`."""
    withdrawal = {} if record.withdraws_id is None else {"withdraws": record.withdraws_id}
    return {
        **withdrawal,
        "actor": record.actor,
        "change_count": record.change_count,
        "comment": record.comment,
        "decided_digest": record.decided_digest,
        "decision": record.decision,
        "edited": record.is_edited,
        "execution": record.execution_id,
        "hold": record.hold_id,
        "node": record.node_id,
        "phase": record.trigger_phase,
        "reason": record.reason,
        "reviewed_at": record.reviewed_at,
        "reviewer": record.reviewer_id,
        "sequence": sequence,
        "shown_digest": record.shown_digest,
        "source": record.source,
        "target": record.target,
        "version": record.version,
        "waited_seconds": record.waited_seconds,
        "workflow": record.workflow_title,
    }
