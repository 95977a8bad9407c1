"""Exports of the history: CSV for spreadsheets, JSON Lines for programs and the verifier.

Both begin with a header: the filters, the number of rows and the heads of the chains.  JSON Lines
contain the records, then the execution receipts; the last line signs the file.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from unicodedata import category, normalize

from django.db.models import QuerySet
from django.utils import timezone

from reviews.models import HumanReviewRecord, RecordSet
from reviews.retention.selectors import record_erasure_of
from workflows.common.keyset import in_batches
from workflows.models import ExecutionReceipt

from .chain import GENESIS
from .history import with_executed_digest
from .records import canonical_text
from .reveals import record_views
from .signing import sign
from .verification import with_decision

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: File extension → content type.
FORMATS: Final = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
KIND: Final = "holdpoint.history"
#: The kind of the last line, which signs the file.
END: Final = "holdpoint.history.end"
_BATCH = 500
#: Large columns of the execution that an export does not need.
_HEAVY = ("execution__state", "execution__context", "execution__inputs")
_COLUMNS: Final = (
    "id", "reviewed_at", "actor", "decision", "execution_id", "workflow_title", "node_id", "target",
    "trigger_phase", "reason", "hold_id", "source", "is_edited", "change_count", "comment",
    "version", "waited_seconds", "shown_digest", "decided_digest", "executed_digest",
    "previous_hash", "hash", "signature", "withdraws_id", "on_behalf_of",
    "on_behalf_of_id",
)  # fmt: skip
#: A line of this kind is a receipt; a line without a kind is a record.
RECEIPT: Final = "receipt"
_RECEIPT_COLUMNS: Final = (
    "id", "sequence", "executed_at", "execution_id", "hold_id", "task_id", "attempt", "phase",
    "digest", "decision_hash", "canonical", "previous_hash", "hash",
)  # fmt: skip
#: Spreadsheets run a cell that begins so as a formula; some drop a line break at its beginning.
_FORMULA: Final = ("=", "+", "-", "@")
_LINE_BREAKS: Final = ("\t", "\r", "\n")
#: A spreadsheet of another language than English splits lines at these, quoted or not.
_SEPARATORS: Final = re.compile(r"([;\t\r\n])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of an export.

    `head` and `receipts_head` are the ends of the chains; if `complete`, the file contains every
    record and receipt up to them.  `signed_from` is the sequence of the oldest signed record, None
    without one: all later records must be signed.
    """

    filters: Mapping[str, str]
    rows: int
    receipts: int
    complete: bool
    exported_at: datetime
    exported_by: str
    head: str
    receipts_head: str
    signed_from: int | None

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "filters": dict(self.filters),
            "rows": self.rows,
            "receipts": self.receipts,
            "complete": self.complete,
            "exported_at": self.exported_at.isoformat(),
            "exported_by": self.exported_by,
            "head": self.head,
            "receipts_head": self.receipts_head,
            "signed_from": self.signed_from,
        }


@dataclass(frozen=True, slots=True)
class Export:
    """A header and its rows; later records are excluded."""

    header: Header
    rows: RecordSet
    receipts: QuerySet[ExecutionReceipt]

    def lines(self, kind: str) -> Iterator[str]:
        """Yield the lines of the file, oldest record first.  `kind` is one of FORMATS."""
        rows = with_executed_digest(self.rows.with_keys())
        if kind == "csv":
            return _csv(self.header, in_batches(rows, by="id", size=_BATCH))
        rows = rows.select_related("execution").defer(*_HEAVY)
        receipts = with_decision(self.receipts)
        return _signed(
            _jsonl(
                self.header,
                in_batches(rows, by="id", size=_BATCH),
                in_batches(receipts, by="sequence", size=_BATCH),
            )
        )


def create_export(rows: RecordSet, *, filters: Mapping[str, str], user: User) -> Export:
    """Create an export of the rows at the current end of the chain."""
    # Read receipts first: then the record of each receipt is within the newest record.
    all_receipts = ExecutionReceipt.objects.order_by("-sequence")
    last, receipts_head = all_receipts.values_list("sequence", "hash").first() or (0, GENESIS)
    everything = HumanReviewRecord.objects.order_by("-id")
    newest, head = everything.values_list("pk", "hash").first() or (0, GENESIS)
    rows = rows.filter(pk__lte=newest)
    count = rows.order_by().count()
    complete = count == everything.filter(pk__lte=newest).order_by().count()
    receipts = all_receipts.filter(sequence__lte=last)
    if not complete:
        receipts = receipts.filter(decision_hash__in=rows.order_by().values("hash"))
    header = Header(
        filters=filters,
        rows=count,
        receipts=receipts.order_by().count(),
        complete=complete,
        exported_at=timezone.now(),
        exported_by=user.get_username(),
        head=head,
        receipts_head=receipts_head,
        signed_from=_signed_from(everything.filter(pk__lte=newest)),
    )
    return Export(header, rows, receipts)


def _signed_from(records: QuerySet[HumanReviewRecord]) -> int | None:
    """Return the sequence of the oldest signed record."""
    signed = records.exclude(signature="").order_by("id")
    text = signed.values_list("canonical", flat=True).first()
    return None if text is None else int(json.loads(text)["sequence"])


def _jsonl(
    header: Header, rows: Iterable[HumanReviewRecord], receipts: Iterable[Any]
) -> Iterator[str]:
    yield _line(header.as_json())
    schemas: dict[tuple[str, str], Any] = {}
    for record in rows:
        row = {name: _plain(getattr(record, name)) for name in _COLUMNS}
        views = record_views(record, [], schemas)
        row |= {
            "original_data": views["original"].value,
            "modified_data": views["edited"].value,
            "masked": sum(len(views[name].secrets) for name in ("original", "edited")),
            # Masked data cannot be compared with the digests.
            "data_is_signed": canonical_text(record) == record.canonical,
            "canonical": record.canonical,
            **_sealed(record),
        }
        yield _line(row)
    for receipt in receipts:
        columns = {name: _plain(getattr(receipt, name)) for name in _RECEIPT_COLUMNS}
        # Only where an agent reported the data: no other receipt has the field.
        reported = {"reported": True} if receipt.reported else {}
        yield _line({"kind": RECEIPT, **columns, **reported})


def _sealed(record: HumanReviewRecord) -> dict[str, Any]:
    """Return the salt of the comment's digest, or when and why the payload was erased."""
    if record.is_erased:
        entry = record_erasure_of(record.execution_id)
        if entry is None:
            return {"erased": {"unexplained": True}}
        return {"erased": {"at": entry.at.isoformat(), "policy": entry.subject}}
    return {"comment_salt": record.payload.salt} if record.sealed else {}


def _signed(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines, then a signed line with the digest of all previous bytes."""
    text = hashlib.sha256()
    for line in lines:
        text.update(line.encode())
        yield line
    digest = text.hexdigest()
    yield _line({"kind": END, "digest": digest, "signature": sign("export", digest)})


def _csv(header: Header, rows: Iterable[HumanReviewRecord]) -> Iterator[str]:
    writer = csv.writer(_Echo(), lineterminator="\r\n")
    fields = header.as_json()
    yield writer.writerow([f"# {name}={_cell(_header_text(fields[name]))}" for name in fields])
    yield writer.writerow(_COLUMNS)
    for record in rows:
        cells = (getattr(record, name) for name in _COLUMNS)
        yield writer.writerow([_cell(_plain(each)) for each in cells])


class _Echo:
    """A file whose write() returns the text."""

    def write(self, text: str) -> str:
        return text


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _header_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)


def _cell(value: Any) -> Any:
    """Escape text that a spreadsheet would run as a formula, also where it splits the text."""
    if not isinstance(value, str):
        return value
    parts = _SEPARATORS.split(value)
    text = "".join(f"'{part}" if _is_formula(part) else part for part in parts)
    return f"'{text}" if text.startswith(_LINE_BREAKS) else text


def _is_formula(text: str) -> bool:
    """Whether the first visible character, also a wide one such as U+FF1D, begins a formula."""
    visible = (each for each in text if not each.isspace() and category(each)[0] != "C")
    return normalize("NFKC", next(visible, "")).startswith(_FORMULA)
