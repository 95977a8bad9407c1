"""The history as a file: CSV for a spreadsheet, JSON Lines for programs and for the verifier.

Both say first what was filtered, how many rows follow and where the chains ended, so that a file
that travels explains itself.  JSON Lines have the records first, then the receipts of what ran
after them; the last line signs the file.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from django.db.models import QuerySet
from django.utils import timezone

from reviews.models import HumanReviewRecord
from workflows.models import ExecutionReceipt

from .chain import GENESIS
from .history import with_executed_digest
from .records import canonical_text
from .reveals import record_views
from .signing import sign

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Endings of the files, and what they are.
FORMATS: Final = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
KIND: Final = "holdpoint.history"
#: The kind of the last line, which signs the file.
END: Final = "holdpoint.history.end"
_BATCH = 500
#: What a row brings along of its run and what nobody reads here.
_HEAVY = ("execution__state", "execution__context", "execution__inputs")
_COLUMNS: Final = (
    "id", "reviewed_at", "actor", "decision", "execution_id", "workflow_title", "node_id", "target",
    "trigger_phase", "reason", "hold_id", "source", "is_edited", "change_count", "comment",
    "version", "waited_seconds", "shown_digest", "decided_digest", "executed_digest",
    "previous_hash", "hash", "signature", "withdraws_id",
)  # fmt: skip
#: A line of this kind is a receipt; a line without a kind is a record.
RECEIPT: Final = "receipt"
_RECEIPT_COLUMNS: Final = (
    "id", "sequence", "executed_at", "execution_id", "hold_id", "task_id", "attempt", "phase",
    "digest", "decision_hash", "canonical", "previous_hash", "hash",
)  # fmt: skip
#: A cell that begins like this is taken for a formula by spreadsheets.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What an export is of: filters as in the address, rows, when, for whom.

    `head` and `receipts_head` are the ends of the chains then; `complete` says that every record
    and receipt up to them is in the file.  `signed_from` is the sequence of the oldest record with
    a signature, None where no record has one: every record from there on has to have one.
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
    """A header and the rows it speaks of; nothing recorded later is among them."""

    header: Header
    rows: QuerySet[HumanReviewRecord]
    receipts: QuerySet[ExecutionReceipt]

    def lines(self, kind: str) -> Iterator[str]:
        """The file's lines, made as they are read; oldest first.  `kind` is one of FORMATS."""
        rows = with_executed_digest(self.rows).order_by("id")
        if kind == "csv":
            return _csv(self.header, rows.iterator(chunk_size=_BATCH))
        rows = rows.select_related("execution").defer(*_HEAVY)
        receipts = self.receipts.order_by("sequence")
        return _signed(
            _jsonl(
                self.header,
                rows.iterator(chunk_size=_BATCH),
                receipts.iterator(chunk_size=_BATCH),
            )
        )


def create_export(
    rows: QuerySet[HumanReviewRecord], *, filters: Mapping[str, str], user: User
) -> Export:
    """An export of the rows as the chain stands now."""
    # Receipts first: the decision of each is then among the records up to the newest.
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
    """The sequence of the oldest record with a signature."""
    signed = records.exclude(signature="").order_by("id")
    text = signed.values_list("canonical", flat=True).first()
    return None if text is None else int(json.loads(text)["sequence"])


def _jsonl(
    header: Header, rows: Iterable[HumanReviewRecord], receipts: Iterable[ExecutionReceipt]
) -> Iterator[str]:
    yield _line(header.as_json())
    schemas: dict[tuple[str, str], Any] = {}
    for record in rows:
        told = {name: _plain(getattr(record, name)) for name in _COLUMNS}
        views = record_views(record, [], schemas)
        told |= {
            "original_data": views["original"].value,
            "modified_data": views["edited"].value,
            "masked": sum(len(views[name].secrets) for name in ("original", "edited")),
            # A reader of masked data cannot compare it with the digests.
            "data_is_signed": canonical_text(record) == record.canonical,
            "canonical": record.canonical,
        }
        yield _line(told)
    for receipt in receipts:
        columns = {name: _plain(getattr(receipt, name)) for name in _RECEIPT_COLUMNS}
        yield _line({"kind": RECEIPT, **columns})


def _signed(lines: Iterable[str]) -> Iterator[str]:
    """The lines, and one behind them with the digest of all bytes before it, signed."""
    text = hashlib.sha256()
    for line in lines:
        text.update(line.encode())
        yield line
    digest = text.hexdigest()
    yield _line({"kind": END, "digest": digest, "signature": sign("export", digest)})


def _csv(header: Header, rows: Iterable[HumanReviewRecord]) -> Iterator[str]:
    writer = csv.writer(_Echo(), lineterminator="\r\n")
    told = header.as_json()
    yield writer.writerow([f"# {name}={_cell(_word(told[name]))}" for name in told])
    yield writer.writerow(_COLUMNS)
    for record in rows:
        yield writer.writerow([_cell(_plain(getattr(record, name))) for name in _COLUMNS])


class _Echo:
    """A file that gives back what is written."""

    def write(self, text: str) -> str:
        return text


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _word(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)


def _cell(value: Any) -> Any:
    """Text that no spreadsheet runs."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
