"""The history as a file: CSV for a spreadsheet, JSON Lines for programs and for the verifier.

Both say first what was filtered, how many rows follow and where the chain ended, so that a file
that travels explains itself.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from django.db.models import QuerySet
from django.utils import timezone

from .models import HumanReviewRecord
from .receipts import GENESIS
from .reveals import record_views

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Endings of the files, and what they are.
FORMATS: Final = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
KIND: Final = "holdpoint.history"
_BATCH = 500
#: What a row brings along of its run and what nobody reads here.
_HEAVY = ("execution__state", "execution__context", "execution__inputs")
_COLUMNS: Final = (
    "id", "reviewed_at", "actor", "decision", "execution_id", "workflow_title", "node_id", "target",
    "trigger_phase", "reason", "hold_id", "source", "is_edited", "change_count", "comment",
    "version", "waited_seconds", "shown_digest", "decided_digest", "previous_hash", "hash",
    "withdraws_id",
)  # fmt: skip
#: A cell that begins like this is taken for a formula by spreadsheets.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What an export is of: filters as in the address, rows, when, for whom.

    `head` is the chain's end then; `complete` says that every record up to it is in the file.
    """

    filters: Mapping[str, str]
    rows: int
    complete: bool
    exported_at: datetime
    exported_by: str
    head: str

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "filters": dict(self.filters),
            "rows": self.rows,
            "complete": self.complete,
            "exported_at": self.exported_at.isoformat(),
            "exported_by": self.exported_by,
            "head": self.head,
        }


@dataclass(frozen=True, slots=True)
class Export:
    """A header and the rows it speaks of; nothing recorded later is among them."""

    header: Header
    rows: QuerySet[HumanReviewRecord]

    def lines(self, kind: str) -> Iterator[str]:
        """The file's lines, made as they are read; oldest first.  `kind` is one of FORMATS."""
        rows = self.rows.order_by("id")
        if kind == "csv":
            return _csv(self.header, rows.iterator(chunk_size=_BATCH))
        rows = rows.select_related("execution").defer(*_HEAVY)
        return _jsonl(self.header, rows.iterator(chunk_size=_BATCH))


def export_of(
    rows: QuerySet[HumanReviewRecord], *, filters: Mapping[str, str], user: User
) -> Export:
    """An export of the rows as the chain stands now."""
    everything = HumanReviewRecord.objects.order_by("-id")
    newest, head = everything.values_list("pk", "hash").first() or (0, GENESIS)
    rows = rows.filter(pk__lte=newest)
    count = rows.order_by().count()
    header = Header(
        filters=filters,
        rows=count,
        complete=count == everything.filter(pk__lte=newest).order_by().count(),
        exported_at=timezone.now(),
        exported_by=user.get_username(),
        head=head,
    )
    return Export(header, rows)


def _jsonl(header: Header, rows: Iterable[HumanReviewRecord]) -> Iterator[str]:
    yield _line(header.as_json())
    schemas: dict[tuple[str, str], Any] = {}
    for record in rows:
        told = {name: _plain(getattr(record, name)) for name in _COLUMNS}
        views = record_views(record, [], schemas)
        told |= {
            "original_data": views["original"].value,
            "modified_data": views["edited"].value,
            "masked": sum(len(views[name].secrets) for name in ("original", "edited")),
            "canonical": record.canonical,
        }
        yield _line(told)


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
