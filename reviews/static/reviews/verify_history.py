#!/usr/bin/env python3
"""Checks a history that was exported from Holdpoint as JSON Lines.  Needs Python 3.9, nothing else.

    python3 verify_history.py history.jsonl [--heads audit-heads.jsonl]

Each record's hash covers the hash before it and the record's signed text; the text has to say what
the record's columns say.  The receipts of what ran are a second chain of the same kind: each names
the decision that let it run by that record's hash, and what ran has to be what was decided.  Where
an export leaves records out (a filter, or what its reader may not
see) the chain is checked wherever two neighbours are there.

Ends with 0 when all is whole, with 1 when it is not, and with 2 when the file cannot be read.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

KIND = "holdpoint.history"
RECEIPT = "receipt"
GENESIS = "0" * 64
#: Keys of the signed text, and the columns that say the same.
SIGNED = {
    "actor": "actor",
    "change_count": "change_count",
    "comment": "comment",
    "decided_digest": "decided_digest",
    "decision": "decision",
    "edited": "is_edited",
    "execution": "execution_id",
    "hold": "hold_id",
    "node": "node_id",
    "phase": "trigger_phase",
    "reason": "reason",
    "shown_digest": "shown_digest",
    "source": "source",
    "target": "target",
    "version": "version",
    "waited_seconds": "waited_seconds",
    "workflow": "workflow_title",
}


#: The same for receipts.
RECEIPT_SIGNED = {
    "attempt": "attempt",
    "decision_hash": "decision_hash",
    "executed_digest": "digest",
    "execution": "execution_id",
    "hold": "hold_id",
    "node": "task_id",
    "phase": "phase",
    "sequence": "sequence",
}


def canonical(value: Any) -> str:
    """The one text of a JSON value: sorted keys, ASCII, no spaces, one form per number."""
    text = _encode(value)
    if ".0" in text or "e+" in text:
        text = _encode(json.loads(text, parse_float=_one_form))
    return text


def _encode(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def _one_form(literal: str) -> int | float:
    number = Decimal(literal)
    return int(number) if number == number.to_integral_value() else float(literal)


def digest(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode("ascii")).hexdigest()


def chain_problems(row: dict[str, Any], columns: dict[str, str], time: str) -> Iterator[str]:
    """What is wrong with one row by itself; `time` is its column (and key) of when it was made."""
    text = row["canonical"]
    found = hashlib.sha256(f"{row['previous_hash']}\n{text}".encode()).hexdigest()
    if found != row["hash"]:
        yield "does not have the hash of its text"
    signed = json.loads(text)
    for key, column in columns.items():
        if canonical(signed[key]) != canonical(row[column]):
            yield f"shows another {column} than it was signed with"
    if _utc(signed[time]) != _utc(row[time]):
        yield "shows another time than it was signed with"


def problems_of(row: dict[str, Any]) -> Iterator[str]:
    """What is wrong with one record by itself."""
    yield from chain_problems(row, SIGNED, "reviewed_at")
    signed = json.loads(row["canonical"])
    if canonical(signed.get("withdraws")) != canonical(row.get("withdraws_id")):
        yield "takes back another record than it was signed with"
    if row.get("masked"):
        return  # the data has marks in place of secrets: the signed digests stand for it
    if digest(row["original_data"]) != row["shown_digest"]:
        yield "shows other original data than it was signed with"
    decided = row["modified_data"] if row["is_edited"] else row["original_data"]
    if digest(decided) != row["decided_digest"]:
        yield "shows other decided data than it was signed with"


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)  # noqa: UP017


class Chain:
    """Walks the rows of one chain in order and remembers what the next one has to follow."""

    def __init__(self, noun: str, *, is_part: bool) -> None:
        self.noun = noun
        self.is_part = is_part
        self.sequence, self.head, self.count, self.gaps = 0, GENESIS, 0, 0
        self.hashes: set[str] = set()
        self.problems: list[str] = []

    def add(self, row: dict[str, Any], wrong: Iterable[str]) -> None:
        """Take the next row; `wrong` is what is wrong with it by itself."""
        name = f"{self.noun} {row['id']}"
        self.problems += [f"{name} {each}" for each in wrong]
        sequence = json.loads(row["canonical"])["sequence"]
        if sequence == self.sequence + 1:
            if row["previous_hash"] != self.head:
                self.problems.append(f"{name} does not follow the {self.noun} before it")
        elif sequence <= self.sequence:
            self.problems.append(f"{name} is out of order or there twice")
        elif self.is_part:
            self.gaps += 1
        else:
            self.problems.append(f"before {name} {self.noun}s are missing")
        self.sequence, self.head, self.count = sequence, row["hash"], self.count + 1
        self.hashes.add(row["hash"])

    def end(self, rows: int, head: str) -> None:
        """Compare with the number of rows and the head that the export's header names."""
        if self.count != rows:
            self.problems.append(f"{rows} {self.noun}s were exported, {self.count} are there")
        if not self.is_part and self.head != head:
            self.problems.append(f"the newest {self.noun}s are missing")


class History:
    """Both chains of an export, and what ties the second to the first."""

    def __init__(self, *, is_part: bool) -> None:
        self.records = Chain("record", is_part=is_part)
        self.receipts = Chain("receipt", is_part=is_part)
        self.masked = 0
        #: Hash of each approval → (run, hold, task, phase, digest of what was decided).
        self.approved: dict[str, tuple[Any, ...]] = {}

    @property
    def problems(self) -> list[str]:
        return [*self.records.problems, *self.receipts.problems]

    def add(self, row: dict[str, Any]) -> None:
        if row.get("kind") == RECEIPT:
            self.receipts.add(row, self._receipt_problems(row))
            return
        self.masked += bool(row.get("masked"))
        self.records.add(row, problems_of(row))
        if row["decision"] == "APPROVE":
            names = ("execution_id", "hold_id", "node_id", "trigger_phase", "decided_digest")
            self.approved[row["hash"]] = tuple(row[name] for name in names)

    def _receipt_problems(self, row: dict[str, Any]) -> Iterator[str]:
        yield from chain_problems(row, RECEIPT_SIGNED, "executed_at")
        decision = self.approved.get(row["decision_hash"])
        ran = tuple(row[name] for name in ("execution_id", "hold_id", "task_id", "phase"))
        if decision is None or decision[:-1] != ran:
            yield "names a decision that is not there"
        elif decision[-1] != row["digest"]:
            yield "says that something else ran than was approved"

    def end(self, header: dict[str, Any], heads: Iterable[str]) -> None:
        self.records.end(header["rows"], header["head"])
        self.receipts.end(header["receipts"], header["receipts_head"])
        is_part, hashes = self.records.is_part, self.records.hashes
        gone = [] if is_part else [each for each in heads if each not in hashes]
        if gone:
            self.records.problems.append(
                f"{len(gone)} heads noted earlier are no longer in the chain"
            )


def verify(lines: Iterable[str], heads: Iterable[str] = ()) -> History:
    """The walked History; raises ValueError (or KeyError) for what is no export."""
    rows = iter(lines)
    header = json.loads(next(rows, "null"))
    if not isinstance(header, dict) or header.get("kind") != KIND:
        raise ValueError("the first line is not the header of an exported history")
    history = History(is_part=not header["complete"])
    for line in rows:
        history.add(json.loads(line))
    history.end(header, heads)
    return history


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check an exported history.")
    parser.add_argument("file")
    parser.add_argument("--heads", help="heads that were noted outside the database")
    asked = parser.parse_args(arguments)
    try:
        heads = []
        if asked.heads:
            with Path(asked.heads).open(encoding="utf-8") as noted:
                heads = [json.loads(line)["hash"] for line in noted]
        with Path(asked.file).open(encoding="utf-8") as exported:
            history = verify(exported, heads)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"This cannot be checked: {error!r}", file=sys.stderr)
        return 2
    for problem in history.problems:
        print(problem, file=sys.stderr)
    if history.problems:
        return 1
    chain, receipts = history.records, history.receipts
    left_out = f"; {chain.gaps} places where records were left out" if chain.gaps else ""
    if history.masked:
        left_out += f"; {history.masked} with masked data, checked by their signed digests alone"
    print(f"{chain.count} records are whole{left_out}; the last hash is {chain.head}")
    print(f"{receipts.count} receipts are whole: what ran is what was approved")
    return 0


if __name__ == "__main__":
    sys.exit(main())
