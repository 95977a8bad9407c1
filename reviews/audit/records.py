"""Write the audit log: one record per decision, chained by hash to the previous one."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from cryptography.fernet import Fernet
from django.contrib.postgres.search import SearchVector
from django.db import connection
from django.db.models import Value

from reviews.components.json_diffs import diff
from reviews.models import HumanReviewRecord, PayloadKey, RecordWords, SealedPayload
from workflows.common.secret_encryption import decrypt, encrypt
from workflows.models import Hold, SecurityEvent
from workflows.security_events.services import record_security_event

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
    #: The absent person for whom the actor decides as their delegate.
    on_behalf_of: str = ""
    on_behalf_of_id: int | None = None


def write_record(hold: Hold, verdict: DecisionEntry) -> HumanReviewRecord:
    """Append a record to the chain, in the caller's transaction.

    `hold` is the hold as shown to the reviewer, with its execution and workflow loaded.
    """
    head = _head(hold.execution_id)
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
        is_edited=verdict.edited,
        change_count=len(diff(hold.payload, decided)),
        version=verdict.version,
        waited_seconds=max(0.0, round((head.moment - hold.opened_at).total_seconds(), 3)),
        reviewed_at=head.moment,
        shown_digest=signed.shown,
        decided_digest=signed.decided,
        previous_hash=head.hash,
        withdraws=verdict.withdraws,
        on_behalf_of=verdict.on_behalf_of,
        on_behalf_of_id=verdict.on_behalf_of_id,
    )
    record.seal(
        SealedPayload(
            original=hold.payload,
            modified=verdict.modified if verdict.edited else None,
            comment=verdict.comment,
            salt=secrets.token_hex(16),
        ),
        head.key,
    )
    record.canonical = record_text(record_content(record, head.sequence + 1))
    record.hash = record_hash(head.hash, record.canonical)
    record.signature = sign("record", record.hash)
    record.save(force_insert=True)
    _index_words(record)
    record_security_event(
        kind=SecurityEvent.Kind.DECISION,
        actor=verdict.reviewer or verdict.actor,
        subject=f"hold:{hold.pk}",
        details={
            "execution": record.execution_id,
            "task": record.node_id,
            "decision": record.decision,
            "source": record.source,
            "on_behalf_of": record.on_behalf_of,
            "edited": record.is_edited,
            "record": record.pk,
            "hash": record.hash,
        },
    )
    return record


#: Characters that part words, as in `holdpoint_erase`.
_SEPARATORS: Final = str.maketrans("._-/:", "     ")


def _index_words(record: HumanReviewRecord) -> None:
    """Store the words of the record for full-text search."""
    texts = (record.node_id, record.target, record.comment, record.workflow_title)
    text = " ".join((*texts, record.actor)).translate(_SEPARATORS)
    words = SearchVector(Value(text), config="simple")
    RecordWords.objects.create(record=record, words=words)


@dataclass(frozen=True, slots=True)
class _Head:
    """The end of the chain, the database time, and the key of the run's payloads."""

    hash: str
    sequence: int
    moment: datetime
    key: str


def _head(execution_id: int) -> _Head:
    """Lock the chain until the transaction ends and return its end.

    The first record of a run stores the key of its payloads.
    """
    with connection.cursor() as cursor:
        # A statement of its own: the snapshots of the next ones are newer than the lock.
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CHAIN_LOCK])
        cursor.execute("SELECT clock_timestamp()")
        (moment,) = cursor.fetchone()
    newest = HumanReviewRecord.objects.order_by("-id").only("hash", "canonical").first()
    stored, _ = PayloadKey.objects.get_or_create(
        execution_id=execution_id,
        defaults={"key": encrypt(Fernet.generate_key().decode("ascii"))},
    )
    if newest is None:
        return _Head(GENESIS, 0, moment, decrypt(stored.key))
    sequence = json.loads(newest.canonical).get("sequence", 0)
    return _Head(newest.hash, sequence, moment, decrypt(stored.key))


def canonical_text(record: HumanReviewRecord) -> str:
    """Rebuild the canonical text from the columns; it must equal the hashed text.

    Of an erased payload only the digests are left, which the columns repeat.
    """
    known = json.loads(record.canonical)
    stored = record_content(record, known.get("sequence", 0))
    if record.is_erased:
        erased = {"comment_digest": known.get("comment_digest")} if record.sealed else {}
        return record_text({**stored, **erased})
    decided = record.modified_data if record.is_edited else record.original_data
    signed = digests(record.original_data, decided)
    return record_text({**stored, "shown_digest": signed.shown, "decided_digest": signed.decided})


def record_content(record: HumanReviewRecord, sequence: int) -> dict[str, Any]:
    """Return the hashed fields, payloads as digests.

    The comment is a digest too, except in records from before they were encrypted.  Only a
    withdrawal has `withdraws`, and only the decision of a delegate `on_behalf_of` and
    `on_behalf_of_id`.
    """
    withdrawal = {} if record.withdraws_id is None else {"withdraws": record.withdraws_id}
    delegation: dict[str, Any] = {}
    if record.on_behalf_of:
        delegation["on_behalf_of"] = record.on_behalf_of
    if record.on_behalf_of_id is not None:
        delegation["on_behalf_of_id"] = record.on_behalf_of_id
    return {
        **withdrawal,
        **delegation,
        **_comment_content(record),
        "actor": record.actor,
        "change_count": record.change_count,
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


def _comment_content(record: HumanReviewRecord) -> dict[str, str]:
    if not record.sealed:
        return {"comment": record.comment}
    columns = (record.stored_original, record.stored_modified, record.stored_comment)
    # The columns of an encrypted record are empty: what is there was put there later.
    changed = columns != (None, None, "")
    return {"comment_digest": "" if changed else record.payload.comment_digest()}
