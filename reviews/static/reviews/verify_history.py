#!/usr/bin/env python3
"""Checks a history that was exported from Holdpoint as JSON Lines.

    python3 verify_history.py history.jsonl --key audit-key.txt --heads audit-heads.jsonl

`--key` is Holdpoint's public key: the text, or a file with one key per line (retired keys too).
With it every signature is checked: of each record, of the file as a whole, and of the heads.
Records from before the key have none; the chain ties them to the first signed record or head, so
they are checked in a whole history and not in a part.
`--heads` are heads that Holdpoint signed and that were kept elsewhere; they show what was cut off,
rewritten or backdated later.  Checking signatures needs the package `cryptography`; the rest needs
Python 3.9 and nothing else.

Each record's hash covers the hash before it and the record's signed text; the text has to say what
the record's columns say.  The receipts of what ran are a second chain of the same kind: each names
the decision that let it run by that record's hash, and what ran has to be what was decided.  Where
an outside agent ran it and reported other arguments, the log is whole and shows that: a line with
REPORTED names it.

Ends with 0 when all that was asked for was checked and is whole, with 1 when something is wrong,
and with 2 when something cannot be checked.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

KIND = "holdpoint.history"
END = "holdpoint.history.end"
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
_CHAINED = {"id", "canonical", "previous_hash", "hash"}
#: Every field that is checked in some way; a row with any other is refused.
FIELDS = {
    *SIGNED.values(), *_CHAINED, "reviewed_at", "withdraws_id", "on_behalf_of", "on_behalf_of_id",
    "original_data", "modified_data",
    "masked", "data_is_signed", "executed_digest", "signature", "comment_salt", "erased",
}  # fmt: skip
RECEIPT_FIELDS = {*RECEIPT_SIGNED.values(), *_CHAINED, "executed_at", "kind", "reported"}
HEADER_FIELDS = {
    "kind", "filters", "rows", "receipts", "complete", "exported_at", "exported_by", "head",
    "receipts_head", "signed_from",
}  # fmt: skip
#: Where no record is signed, somebody may have taken the signatures away.
NONE_SIGNED = "no record is signed, and nothing shows that all of them are from before the key"
GIVE_HEADS = (
    "give --heads with heads that were signed since there is a key; a head covers every record"
    " before it by the chain"
)
#: A clock may be set back by so much without a record counting as backdated.
CLOCK_STEP = timedelta(seconds=1)


class CannotCheck(Exception):
    """What was asked for cannot be checked; the text says why."""


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


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)  # noqa: UP017


# --- signatures -----------------------------------------------------------------------------------


class Keys:
    """Public keys, and the check of a signature `KEY ID:BASE64` by the key of that id."""

    def __init__(self, given: Iterable[str]) -> None:
        """Raise CannotCheck for a key that is none, and where `cryptography` is missing."""
        try:
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        except ImportError:
            raise CannotCheck(
                "Signatures are checked with the Python package `cryptography`, which is not"
                " installed here: pip install cryptography"
            ) from None
        self._invalid = InvalidSignature
        self._keys: dict[str, Ed25519PublicKey] = {}
        for text in given:
            try:
                raw = base64.b64decode(text, validate=True)
                self._keys[hashlib.sha256(raw).hexdigest()[:16]] = (
                    Ed25519PublicKey.from_public_bytes(raw)
                )
            except ValueError:
                raise CannotCheck(f"{text!r} is no public key") from None
        if not self._keys:
            raise CannotCheck("There is no public key in what --key names")

    def has_signed(self, purpose: str, text: str, signature: str) -> bool:
        name, _, encoded = signature.partition(":")
        key = self._keys.get(name)
        if key is None:
            return False
        try:
            key.verify(base64.b64decode(encoded), f"holdpoint.{purpose}\n{text}".encode())
        except (self._invalid, ValueError):
            return False
        return True


def keys_in(named: Iterable[str]) -> list[str]:
    """The keys that --key names: each a key, or a file with one per line (`#` begins a comment)."""
    found = []
    for name in named:
        lines = (
            Path(name).read_text(encoding="utf-8").splitlines() if Path(name).exists() else [name]
        )
        found += [text for line in lines if (text := line.partition("#")[0].strip())]
    return found


# --- heads ----------------------------------------------------------------------------------------


class Heads:
    """Signed heads, and what they say about the records and receipts of a history.

    A head says: at this time the chain of records ended with this number and hash, and so did the
    chain of receipts.  Heads are signed while nobody can add to the chain, so a record with a
    greater number was made later.
    """

    def __init__(self, lines: Iterable[str], keys: Keys) -> None:
        """Raise CannotCheck for lines that are no heads, or where there are none."""
        self.problems: list[str] = []
        self.heads: list[dict[str, Any]] = []
        for number, line in enumerate(lines, 1):
            try:
                head = json.loads(line)
                signature = head.pop("signature", "")
                at = _utc(head["at"])
                numbers = (int(head["sequence"]), int(head["receipts_sequence"]))
                hashes = (str(head["hash"]), str(head["receipts_hash"]))
            except (ValueError, KeyError, TypeError, AttributeError):
                raise CannotCheck(f"line {number} of the heads is no signed head") from None
            if keys.has_signed("head", canonical(head), signature):
                self.heads.append({"at": at, "numbers": numbers, "hashes": hashes})
            else:
                self.problems.append(f"line {number} of the heads was not signed by a given key")
        if not self.heads and not self.problems:
            raise CannotCheck("There are no heads in what --heads names")
        self.heads.sort(key=lambda head: (head["at"], head["numbers"]))
        self._look_back()
        #: For records and for receipts: the heads by their number, ascending.
        self._waiting = [
            sorted(self.heads, key=lambda head, i=index: (head["numbers"][i], head["at"]))  # type: ignore[misc]
            for index in (0, 1)
        ]
        self._next = [0, 0]
        #: How many heads are younger than the history, once `end` has compared them.
        self.younger = 0
        self._passed: list[datetime | None] = [None, None]
        #: The greatest numbers of a record and of a receipt that a head fits.
        self.fits = [0, 0]

    @property
    def key_from(self) -> int | None:
        """How many records there were at the first signed head: the key is at least as old."""
        return self.heads[0]["numbers"][0] if self.heads else None

    def _look_back(self) -> None:
        """A chain only grows: no later head may name fewer records than an earlier one."""
        for index, noun in enumerate(("records", "receipts")):
            most = 0
            for head in self.heads:
                number = head["numbers"][index]
                if number < most:
                    self.problems.append(
                        f"at {head['at'].isoformat()} there were {number} {noun}, and {most}"
                        " before: some were taken away"
                    )
                most = max(most, number)

    def add(self, index: int, name: str, number: int, row_hash: str, at: datetime) -> None:
        """Compare the next row of records (index 0) or receipts (1), in the order of its chain."""
        waiting = self._waiting[index]
        while (
            self._next[index] < len(waiting)
            and waiting[self._next[index]]["numbers"][index] < number
        ):
            earlier = waiting[self._next[index]]["at"]
            passed = self._passed[index]
            self._passed[index] = max(earlier, passed) if passed else earlier
            self._next[index] += 1
        passed = self._passed[index]
        if passed is not None and at < passed - CLOCK_STEP:
            self.problems.append(
                f"{name} was backdated: it says {at.isoformat()}, and a head of"
                f" {passed.isoformat()} does not have it"
            )
        position = self._next[index]
        while position < len(waiting) and waiting[position]["numbers"][index] == number:
            if waiting[position]["hashes"][index] != row_hash:
                self.problems.append(
                    f"{name} was rewritten: a head of {waiting[position]['at'].isoformat()} names"
                    " another"
                )
                break
            self.fits[index] = number
            position += 1

    def end(self, counts: tuple[int, int], checked_at: datetime, max_age: timedelta) -> None:
        """Compare with the last numbers of both chains, as they were at `checked_at`."""
        known = [head for head in self.heads if head["at"] <= checked_at]
        self.younger = len(self.heads) - len(known)
        for index, noun in enumerate(("records", "receipts")):
            most = max((head["numbers"][index] for head in known), default=0)
            if most > counts[index]:
                self.problems.append(
                    f"the newest {noun} are missing: a head names {most}, the last one here is"
                    f" number {counts[index]}"
                )
        newest = max((head["at"] for head in self.heads), default=None)
        if newest is not None and checked_at - newest > max_age:
            self.problems.append(
                f"the newest head is of {newest.isoformat()}, more than"
                f" {max_age.total_seconds():.0f} s before the history: newer heads are missing"
            )


def is_younger(sequence: int, heads: Heads) -> bool:
    """Whether a record was made after the first signed head, and so after the key."""
    return heads.key_from is not None and sequence > heads.key_from


# --- chains ---------------------------------------------------------------------------------------


def chain_problems(
    row: dict[str, Any], columns: dict[str, str], time: str, fields: set[str]
) -> Iterator[str]:
    """What is wrong with one row by itself; `time` is its column (and key) of when it was made."""
    for name in sorted(row.keys() - fields):
        yield f"has a field that nothing signs: {name}"
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
    signed = json.loads(row["canonical"])
    # The text of later records has a digest of the comment, so that it can be erased.
    columns = {key: SIGNED[key] for key in SIGNED if key != "comment" or key in signed}
    yield from chain_problems(row, columns, "reviewed_at", FIELDS)
    if canonical(signed.get("withdraws")) != canonical(row.get("withdraws_id")):
        yield "takes back another record than it was signed with"
    if signed.get("on_behalf_of", "") != row.get("on_behalf_of", ""):
        yield "names another absent person than it was signed with"
    if canonical(signed.get("on_behalf_of_id")) != canonical(row.get("on_behalf_of_id")):
        yield "has another id of the absent person than it was signed with"
    if row.get("erased"):
        yield from _erased_problems(row, signed)
        return
    if "comment" not in signed and _comment_digest(row) != signed.get("comment_digest"):
        yield "shows another comment than it was signed with"
    if row.get("masked"):
        # The data has marks in place of secrets: Holdpoint compared it when it wrote the file.
        if row.get("data_is_signed") is not True:
            yield "has masked data that Holdpoint itself found to differ from what was signed"
        return
    if digest(row["original_data"]) != row["shown_digest"]:
        yield "shows other original data than it was signed with"
    decided = row["modified_data"] if row["is_edited"] else row["original_data"]
    if digest(decided) != row["decided_digest"]:
        yield "shows other decided data than it was signed with"


def _erased_problems(row: dict[str, Any], signed: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a record by itself that says that its data was erased."""
    if row["erased"].get("unexplained") or not row["erased"].get("at"):
        yield "was erased, and the retention log does not say so"
    if any(row.get(name) is not None for name in ("original_data", "modified_data")):
        yield "has data, though it says that its data was erased"
    if "comment_digest" in signed and row["comment"]:
        yield "has a comment, though it says that its comment was erased"


def _comment_digest(row: dict[str, Any]) -> str:
    """The digest of a comment with its salt, without which short comments could be guessed."""
    return hashlib.sha256(f"{row.get('comment_salt', '')}{row['comment']}".encode()).hexdigest()


class Chain:
    """Walks the rows of one chain in order and remembers what the next one has to follow."""

    def __init__(self, noun: str, *, is_part: bool) -> None:
        self.noun = noun
        self.is_part = is_part
        self.sequence, self.head, self.count, self.gaps = 0, GENESIS, 0, 0
        self.problems: list[str] = []

    def add(self, row: dict[str, Any], wrong: Iterable[str]) -> int:
        """Take the next row; `wrong` is what is wrong with it by itself.  Returns its number."""
        name = f"{self.noun} {row['id']}"
        self.problems += [f"{name} {each}" for each in wrong]
        sequence: int = json.loads(row["canonical"])["sequence"]
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
        return sequence

    def end(self, rows: int, head: str) -> None:
        """Compare with the number of rows and the head that the export's header names."""
        if self.count != rows:
            self.problems.append(f"{rows} {self.noun}s were exported, {self.count} are there")
        if not self.is_part and self.head != head:
            self.problems.append(f"the newest {self.noun}s are missing")


class History:
    """Both chains of an export, what ties the second to the first, and what was signed."""

    def __init__(
        self, header: dict[str, Any], keys: Keys | None = None, heads: Heads | None = None
    ) -> None:
        self.header, self.keys, self.heads = header, keys, heads
        self.is_part = not header["complete"]
        self.records = Chain("record", is_part=self.is_part)
        self.receipts = Chain("receipt", is_part=self.is_part)
        self.masked = self.erased = self.signed = self.unsigned = 0
        #: The sequence of the first signed record of the file.
        self.first_signed: int | None = None
        #: The sequence of the oldest signed record, as the header (which is signed) names it.
        self.signed_from: int | None = header.get("signed_from")
        #: Hash of each approval → (run, hold, task, phase, digest of what was decided).
        self.approved: dict[str, tuple[Any, ...]] = {}
        #: What was erased, in words → how many records.
        self.erasures: dict[str, int] = {}
        #: Receipts of agents that reported other arguments than people approved.
        self.reported: list[str] = []
        self.file_problems = [
            f"the first line has a field that nothing checks: {name}"
            for name in sorted(header.keys() - HEADER_FIELDS)
        ]

    @property
    def problems(self) -> list[str]:
        heads = self.heads.problems if self.heads else []
        return [*self.file_problems, *self.records.problems, *self.receipts.problems, *heads]

    def add(self, row: dict[str, Any]) -> None:
        """Take the next row of the file: records first, then receipts."""
        if row.get("kind") == RECEIPT:
            number = self.receipts.add(row, self._receipt_problems(row))
            if self.heads:
                name, at = f"receipt {row['id']}", _utc(row["executed_at"])
                self.heads.add(1, name, number, row["hash"], at)
            return
        self.masked += bool(row.get("masked"))
        if row.get("erased"):
            self.erased += 1
            at, policy = row["erased"].get("at", ""), row["erased"].get("policy", "")
            told = f"on {at} under policy “{policy}”"
            self.erasures[told] = self.erasures.get(told, 0) + 1
        number = self.records.add(row, [*problems_of(row), *self._signature_problems(row)])
        if self.heads:
            self.heads.add(0, f"record {row['id']}", number, row["hash"], _utc(row["reviewed_at"]))
        if row["decision"] == "APPROVE":
            names = ("execution_id", "hold_id", "node_id", "trigger_phase", "decided_digest")
            self.approved[row["hash"]] = tuple(row[name] for name in names)

    def _signature_problems(self, row: dict[str, Any]) -> Iterator[str]:
        """Records from before there was a key have no signature; none may follow a signed one.

        A part may leave out the signed records before an unsigned one, so `signed_from` counts too.
        A record that is younger than the first signed head is younger than the key.
        """
        if self.keys is None:
            return
        signature = row.get("signature") or ""
        sequence: int = json.loads(row["canonical"])["sequence"]
        if signature:
            self.signed += 1
            self.first_signed = self.first_signed or sequence
            if not self.keys.has_signed("record", row["hash"], signature):
                yield "was not signed by a given key"
        else:
            self.unsigned += 1
            is_late = self.signed_from is not None and sequence >= self.signed_from
            if self.signed or is_late:
                yield "is not signed, though records before it are"
            elif self.heads and is_younger(sequence, self.heads):
                yield "is not signed, though a head from before it is"

    def _receipt_problems(self, row: dict[str, Any]) -> Iterator[str]:
        yield from chain_problems(row, RECEIPT_SIGNED, "executed_at", RECEIPT_FIELDS)
        decision = self.approved.get(row["decision_hash"])
        ran = tuple(row[name] for name in ("execution_id", "hold_id", "task_id", "phase"))
        if decision is None or decision[:-1] != ran:
            yield "names a decision that is not there"
        elif decision[-1] != row["digest"] and row.get("reported") is True:
            # Holdpoint said so when it signed the file: only the agent knows what it executed.
            self.reported.append(
                f"REPORTED: receipt {row['id']}: the agent of run {row['execution_id']} reported"
                " that it executed other arguments than people approved"
            )
        elif decision[-1] != row["digest"]:
            yield "says that something else ran than was approved"

    def end(self, *, text_digest: str, trailer: dict[str, Any] | None, max_age: timedelta) -> None:
        """Compare with what the first and the last line say about the whole file."""
        header = self.header
        self._check_unsigned()
        self.records.end(header["rows"], header["head"])
        self.receipts.end(header["receipts"], header["receipts_head"])
        self._check_trailer(text_digest, trailer)
        if self.keys and self.is_part and self.unsigned and "signed_from" not in header:
            self.file_problems.append(
                "the first line does not say from where on records are signed, and"
                f" {self.unsigned} records of this part are not signed"
            )
        if self.heads:
            counts = (self.records.sequence, self.receipts.sequence)
            self.heads.end(counts, _utc(header["exported_at"]), max_age)

    def _check_unsigned(self) -> None:
        """Where no record is signed, a signed head has to show that all are older than the key."""
        if self.keys is None or not self.records.count or self.signed:
            return
        if self.is_part:
            if self.signed_from is None:
                self.file_problems.append(f"{NONE_SIGNED}: export the whole history")
        elif self.heads is None:
            self.file_problems.append(f"{NONE_SIGNED}: {GIVE_HEADS}")
        elif self.heads.fits[0] < self.records.sequence:
            self.file_problems.append(f"{NONE_SIGNED}, and the signed heads do not show it")

    def _check_trailer(self, text_digest: str, trailer: dict[str, Any] | None) -> None:
        if trailer is None:
            self.file_problems.append("the last line is missing")
        elif trailer.get("digest") != text_digest or trailer.keys() - {
            "kind",
            "digest",
            "signature",
        }:
            self.file_problems.append("the file was changed after it was exported")
        elif self.keys and not self.keys.has_signed("export", text_digest, trailer["signature"]):
            self.file_problems.append("the file was not signed by a given key")


def verify(
    lines: Iterable[bytes],
    *,
    keys: Keys | None = None,
    heads: Heads | None = None,
    max_age: timedelta = timedelta(minutes=10),
) -> History:
    """The walked History; raises CannotCheck, or ValueError (KeyError) for what is no export."""
    rows = iter(lines)
    first = next(rows, b"null")
    header = json.loads(first)
    if not isinstance(header, dict) or header.get("kind") != KIND:
        raise ValueError("the first line is not the header of an exported history")
    history = History(header, keys, heads)
    if heads and history.is_part:
        raise CannotCheck("Heads speak of the whole history, and this file is a part of it.")
    text, trailer = hashlib.sha256(first), None
    for line in rows:
        if trailer is not None:
            raise ValueError("there are lines after the last one")
        row = json.loads(line)
        if row.get("kind") == END:
            trailer = row
            continue
        text.update(line)
        history.add(row)
    history.end(text_digest=text.hexdigest(), trailer=trailer, max_age=max_age)
    if (
        keys is None
        and not history.problems
        and (history.is_part or history.masked or history.erased)
    ):
        what = "a part of the history" if history.is_part else "a history with masked data"
        if not history.is_part and history.erased:
            what = "a history with erased data"
        raise CannotCheck(
            f"This is {what}, so its chain alone does not show what was rewritten: give the public"
            " key with --key."
        )
    if keys and history.is_part and history.unsigned and not (history.signed or history.problems):
        raise CannotCheck(
            f"The {history.records.count} records of this part are from before the key (records are"
            f" signed from number {history.signed_from} on), and a part does not show the chain up"
            " to there: export the whole history."
        )
    return history


def guarantees(history: History) -> Iterator[str]:
    """What was found to be whole, a line each, and what was not checked."""
    chain, receipts = history.records, history.receipts
    left_out = f"; {chain.gaps} places where records were left out" if chain.gaps else ""
    yield f"{chain.count} records are whole{left_out}; the last hash is {chain.head}"
    yield f"{receipts.count} receipts are whole: what Holdpoint ran is what was approved"
    yield from history.reported
    yield f"This file was exported at {history.header['exported_at']}"
    if history.masked:
        yield (
            f"{history.masked} records show marks in place of secrets. Decision, person, time,"
            " comment and digests of these are checked like all others. What they show is not"
            " compared with the digests here: Holdpoint did so when it signed this file."
        )
    for told, count in history.erasures.items():
        yield (
            f"The payload and the comment of {count} records were erased {told}, says Holdpoint,"
            " which signed this file. Decision, person, time and digests of these are checked."
        )
    if history.is_part:
        yield (
            "This file is a part of the history: each record is the one that was signed; records"
            " that were deleted do not show."
        )
    if history.keys:
        yield f"{history.signed} records and the file itself are signed by a given key"
        if history.unsigned and history.is_part:
            yield f"NOT CHECKED: {history.unsigned} records from before there was a key"
        elif history.unsigned:
            since = f"record {history.first_signed}" if history.signed else "the first signed head"
            yield (
                f"{history.unsigned} records are from before the key: the chain shows that they are"
                f" as they were when {since} was signed"
            )
    else:
        yield "NOT CHECKED without --key: who wrote the records, and who wrote this file"
    if history.heads:
        heads = history.heads
        count = len(heads.heads) - heads.younger
        yield f"{count} signed heads fit: nothing was cut off, rewritten or backdated"
        if heads.younger:
            yield (
                f"NOT CHECKED what came after the export: {heads.younger} heads are younger than it"
            )
    else:
        yield "NOT CHECKED without --heads: whether the newest records were cut off"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check an exported history.")
    parser.add_argument("file")
    parser.add_argument(
        "--key", action="append", default=[], help="a public key, or a file of them"
    )
    parser.add_argument(
        "--heads", action="append", default=[], help="a file of heads that were kept elsewhere"
    )
    parser.add_argument(
        "--max-age",
        type=float,
        default=600,
        metavar="SECONDS",
        help="how much older than the history the newest head may be (600)",
    )
    asked = parser.parse_args(arguments)
    try:
        if asked.heads and not asked.key:
            raise CannotCheck("Heads are checked by their signatures: give the public key, --key.")
        keys = Keys(keys_in(asked.key)) if asked.key else None
        heads = None
        if keys and asked.heads:
            texts = [Path(name).read_text(encoding="utf-8") for name in asked.heads]
            heads = Heads([line for text in texts for line in text.splitlines()], keys)
        with Path(asked.file).open("rb") as exported:
            age = timedelta(seconds=asked.max_age)
            history = verify(exported, keys=keys, heads=heads, max_age=age)
    except CannotCheck as reason:
        print(f"This cannot be checked: {reason}", file=sys.stderr)
        return 2
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"This cannot be checked: {error!r}", file=sys.stderr)
        return 2
    for problem in history.problems:
        print(problem, file=sys.stderr)
    if history.problems:
        return 1
    for line in guarantees(history):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
