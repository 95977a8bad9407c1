"""The hash chain of audit records, and its verification.

Each hash covers the previous hash, so a record cannot be changed, removed or inserted without
breaking the chain.  Removing the newest records leaves an intact chain; only hashes published
elsewhere reveal it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from workflows.engine.values.bounded_json import JSON, canonical, digest

#: The hash before the first record.
GENESIS: Final = "0" * 64

#: Hashes remembered to distinguish an inserted record from a missing one.
_WINDOW: Final = 10_000


class ChainRow(Protocol):
    """The attributes of a stored record that the chain needs."""

    @property
    def id(self) -> int: ...
    @property
    def canonical(self) -> str: ...
    @property
    def previous_hash(self) -> str: ...
    @property
    def hash(self) -> str: ...


Row = TypeVar("Row", bound=ChainRow)


@dataclass(frozen=True, slots=True)
class Digests:
    """SHA-256 (64 hex digits) of the shown, decided and executed payload; "" for none."""

    shown: str
    decided: str
    executed: str


@dataclass(frozen=True, slots=True)
class ChainProblem:
    """`kind` is altered, deleted or inserted.

    `row_id` names the altered or inserted row, or the first row after those that are missing;
    None when they are missing at the end.
    """

    kind: str
    row_id: int | None
    message: str


@dataclass(frozen=True, slots=True)
class ChainReport:
    """The result for `checked` rows; `head` is the last hash, which can be published."""

    checked: int
    head: str
    problems: tuple[ChainProblem, ...]


class _Nothing:
    """Marks an absent payload: None would be the JSON value null."""


NOTHING: Final = _Nothing()


def record_text(fields: Mapping[str, Any]) -> str:
    """Return the canonical text of a record: UTC times with microseconds, ids as text, sorted keys.

    A gapless number under "sequence" distinguishes a missing record from a rewritten one.  Personal
    payload is included as a digest, so it can be erased without breaking the chain.
    """
    return canonical({key: _plain(value) for key, value in fields.items()})


def record_hash(previous_hash: str, canonical_text: str) -> str:
    """Return the SHA-256 of the previous hash and the record's text, as 64 hex digits."""
    return hashlib.sha256(f"{previous_hash}\n{canonical_text}".encode()).hexdigest()


def digests(shown: JSON, decided: JSON, executed: JSON = NOTHING) -> Digests:
    """Return the digests of the three forms of a payload; pass NOTHING for an absent form."""
    return Digests(*("" if v is NOTHING else digest(v) for v in (shown, decided, executed)))


def verify_chain(
    rows: Iterable[Row],
    *,
    text_of: Callable[[Row], str] | None = None,
    published: Collection[str] = (),
    noun: str = "record",
) -> ChainReport:
    """Check all rows of a chain in order; report altered, deleted and inserted rows.

    Args:
        text_of: rebuilds the text from the columns that people read; it must equal the hashed text.
        published: hashes known from elsewhere; each must still be in the chain.
        noun: the name of a row in messages.
    """
    walk = _Walk(set(published), noun)
    for row in rows:
        walk.check(row, text_of(row) if text_of else row.canonical)
    return walk.report()


class _Walk:
    def __init__(self, published: set[str], noun: str) -> None:
        self._noun = noun
        self._missing = published - {GENESIS}
        self._last: ChainRow | None = None
        self._heads = {GENESIS}
        self._seen: dict[str, int | None] = {GENESIS: None}
        self._problems: dict[tuple[str, int | None], ChainProblem] = {}
        self._checked = 0

    def check(self, row: ChainRow, shown: str) -> None:
        right = record_hash(row.previous_hash, row.canonical)
        is_whole = row.hash == right
        if not is_whole:
            self._add(
                "altered", row.id, f"{self._noun} {row.id} does not have the hash of its text"
            )
        elif shown != row.canonical:
            message = f"{self._noun} {row.id} shows other data than it was signed with"
            self._add("altered", row.id, message)
        if row.previous_hash not in self._heads:
            self._report_break(row, is_whole=is_whole)
        elif self._last is not None and _is_gap(self._last, row):
            self._report_missing(row)
        self._last, self._checked = row, self._checked + 1
        self._heads = {row.hash, right}
        self._missing -= self._heads
        self._seen[row.hash] = row.id
        if len(self._seen) > _WINDOW:
            del self._seen[next(iter(self._seen))]

    def report(self) -> ChainReport:
        if self._missing:
            count = len(self._missing)
            self._add("deleted", None, f"{count} published hashes are no longer in the chain")
        head = self._last.hash if self._last else GENESIS
        return ChainReport(self._checked, head, tuple(self._problems.values()))

    def _report_break(self, row: ChainRow, *, is_whole: bool) -> None:
        if row.previous_hash in self._seen:
            for stray in self._after(row.previous_hash):
                message = f"{self._noun} {stray} was slipped in: no {self._noun} follows it"
                self._add("inserted", stray, message)
        elif self._last is not None and _follows(self._last, row):
            last = self._last.id
            message = f"{self._noun} {last} was rewritten: {self._noun} {row.id} follows another"
            self._add("altered", last, message)
        elif is_whole:
            self._report_missing(row)

    def _report_missing(self, row: ChainRow) -> None:
        start = f"{self._noun} {self._last.id}" if self._last else "the start"
        message = f"between {start} and {self._noun} {row.id} {self._noun}s are missing"
        self._add("deleted", row.id, message)

    def _after(self, known: str) -> list[int]:
        hashes = list(self._seen)
        later = hashes[hashes.index(known) + 1 :]
        return [number for each in later if (number := self._seen[each]) is not None]

    def _add(self, kind: str, row_id: int | None, message: str) -> None:
        self._problems.setdefault((kind, row_id), ChainProblem(kind, row_id, message))


def _follows(last: ChainRow, row: ChainRow) -> bool:
    """Return whether `row` has the next sequence number after `last`."""
    before, now = _sequence(last), _sequence(row)
    if before is not None and now is not None:
        return now == before + 1
    return row.id == last.id + 1


def _is_gap(last: ChainRow, row: ChainRow) -> bool:
    before, now = _sequence(last), _sequence(row)
    return before is not None and now is not None and now > before + 1


def _sequence(row: ChainRow) -> int | None:
    try:
        number = json.loads(row.canonical).get("sequence")
    except (ValueError, AttributeError):
        return None
    return number if isinstance(number, int) else None


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return str(value) if isinstance(value, UUID) else value
