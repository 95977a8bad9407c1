#!/usr/bin/env python3
"""Checks a history that was exported from Holdpoint as JSON Lines.  Needs Python 3.9, nothing else.

    python3 verify_history.py history.jsonl [--heads audit-heads.jsonl]

Each record's hash covers the hash before it and the record's signed text; the text has to say what
the record's columns say.  Where an export leaves records out (a filter, or what its reader may not
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


def problems_of(row: dict[str, Any]) -> Iterator[str]:
    """What is wrong with one record by itself."""
    text = row["canonical"]
    found = hashlib.sha256(f"{row['previous_hash']}\n{text}".encode()).hexdigest()
    if found != row["hash"]:
        yield "does not have the hash of its text"
    signed = json.loads(text)
    for key, column in SIGNED.items():
        if canonical(signed[key]) != canonical(row[column]):
            yield f"shows another {column} than it was signed with"
    if canonical(signed.get("withdraws")) != canonical(row.get("withdraws_id")):
        yield "takes back another record than it was signed with"
    if _utc(signed["reviewed_at"]) != _utc(row["reviewed_at"]):
        yield "shows another time than it was signed with"
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
    """Walks the records in order and remembers what the next one has to follow."""

    def __init__(self, *, is_part: bool) -> None:
        self.is_part = is_part
        self.sequence, self.head, self.count, self.gaps = 0, GENESIS, 0, 0
        self.masked = 0
        self.hashes: set[str] = set()
        self.problems: list[str] = []

    def add(self, row: dict[str, Any]) -> None:
        self.masked += bool(row.get("masked"))
        self.problems += [f"record {row['id']} {each}" for each in problems_of(row)]
        sequence = json.loads(row["canonical"])["sequence"]
        if sequence == self.sequence + 1:
            if row["previous_hash"] != self.head:
                self.problems.append(f"record {row['id']} does not follow the record before it")
        elif sequence <= self.sequence:
            self.problems.append(f"record {row['id']} is out of order or there twice")
        elif self.is_part:
            self.gaps += 1
        else:
            self.problems.append(f"before record {row['id']} records are missing")
        self.sequence, self.head, self.count = sequence, row["hash"], self.count + 1
        self.hashes.add(row["hash"])

    def end(self, header: dict[str, Any], heads: Iterable[str]) -> None:
        if self.count != header["rows"]:
            self.problems.append(f"{header['rows']} records were exported, {self.count} are there")
        if not self.is_part and self.head != header["head"]:
            self.problems.append("the newest records are missing")
        gone = [] if self.is_part else [each for each in heads if each not in self.hashes]
        if gone:
            self.problems.append(f"{len(gone)} heads noted earlier are no longer in the chain")


def verify(lines: Iterable[str], heads: Iterable[str] = ()) -> Chain:
    """The walked Chain; raises ValueError (or KeyError) for what is no export."""
    rows = iter(lines)
    header = json.loads(next(rows, "null"))
    if not isinstance(header, dict) or header.get("kind") != KIND:
        raise ValueError("the first line is not the header of an exported history")
    chain = Chain(is_part=not header["complete"])
    for line in rows:
        chain.add(json.loads(line))
    chain.end(header, heads)
    return chain


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
            chain = verify(exported, heads)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"This cannot be checked: {error!r}", file=sys.stderr)
        return 2
    for problem in chain.problems:
        print(problem, file=sys.stderr)
    if chain.problems:
        return 1
    left_out = f"; {chain.gaps} places where records were left out" if chain.gaps else ""
    if chain.masked:
        left_out += f"; {chain.masked} with masked data, checked by their signed digests alone"
    print(f"{chain.count} records are whole{left_out}; the last hash is {chain.head}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
