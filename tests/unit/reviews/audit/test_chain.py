"""Receipts and the chain over them: every kind of tampering is found and named."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviews.audit.chain import (
    GENESIS,
    ChainReport,
    Digests,
    digests,
    record_hash,
    record_text,
    verify_chain,
)


@dataclass(frozen=True)
class Row:
    id: int
    canonical: str
    previous_hash: str
    hash: str


def sealed(number: int, canonical: str, previous_hash: str) -> Row:
    return Row(number, canonical, previous_hash, record_hash(previous_hash, canonical))


def chain(length: int, *, numbered: bool = True) -> list[Row]:
    rows: list[Row] = []
    previous = GENESIS
    for number in range(1, length + 1):
        fields = {"decision": "APPROVE", "node": f"n{number}"}
        text = record_text({**fields, "sequence": number} if numbered else fields)
        rows.append(sealed(number * 3 if numbered else number, text, previous))
        previous = rows[-1].hash
    return rows


def found(report: ChainReport) -> set[tuple[str, int | None]]:
    return {(problem.kind, problem.row_id) for problem in report.problems}


NUMBERED = st.booleans()


@given(st.integers(0, 12), NUMBERED)
def test_an_untouched_chain_is_intact(length: int, numbered: bool) -> None:
    rows = chain(length, numbered=numbered)
    report = verify_chain(rows, published=[row.hash for row in rows])
    assert not report.problems
    assert report.checked == length
    assert report.head == (rows[-1].hash if rows else GENESIS)


@given(st.integers(0, 9), NUMBERED)
def test_an_altered_text_is_named(at: int, numbered: bool) -> None:
    rows = chain(10, numbered=numbered)
    rows[at] = replace(rows[at], canonical=rows[at].canonical.replace("APPROVE", "REJECT"))
    assert found(verify_chain(rows)) == {("altered", rows[at].id)}


@given(st.integers(0, 9), NUMBERED)
def test_an_altered_hash_is_named(at: int, numbered: bool) -> None:
    rows = chain(10, numbered=numbered)
    rows[at] = replace(rows[at], hash="f" * 64)
    assert found(verify_chain(rows)) == {("altered", rows[at].id)}


@given(st.integers(0, 8), NUMBERED)
def test_a_rewritten_record_with_a_new_hash_is_named(at: int, numbered: bool) -> None:
    rows = chain(10, numbered=numbered)
    text = rows[at].canonical.replace("APPROVE", "REJECT")
    rows[at] = sealed(rows[at].id, text, rows[at].previous_hash)
    assert found(verify_chain(rows)) == {("altered", rows[at].id)}


@given(st.integers(0, 6), st.integers(1, 3), NUMBERED)
def test_missing_records_are_named(at: int, count: int, numbered: bool) -> None:
    rows = chain(10, numbered=numbered)
    del rows[at : at + count]
    report = verify_chain(rows)
    assert found(report) == {("deleted", rows[at].id)}
    start = f"record {rows[at - 1].id}" if at else "the start"
    assert (
        report.problems[0].message
        == f"between {start} and record {rows[at].id} records are missing"
    )


@given(st.integers(0, 8))
def test_an_inserted_record_is_named(at: int) -> None:
    rows = chain(10)
    text = record_text({"decision": "APPROVE", "node": "forged", "sequence": at + 1})
    rows.insert(at + 1, sealed(rows[at].id + 1, text, rows[at].hash))
    assert found(verify_chain(rows)) == {("inserted", rows[at].id + 1)}


def test_relinked_records_leave_a_gap_in_the_numbers() -> None:
    rows = chain(5)
    tail = [sealed(row.id, row.canonical, rows[0].hash) for row in rows[2:3]]
    assert found(verify_chain([rows[0], *tail])) == {("deleted", tail[0].id)}


def test_published_hashes_reveal_a_truncated_tail() -> None:
    rows = chain(5)
    heads = [rows[1].hash, rows[4].hash]
    assert not verify_chain(rows[:3]).problems
    assert found(verify_chain(rows[:3], published=heads)) == {("deleted", None)}


def test_columns_must_equal_the_hashed_text() -> None:
    rows = chain(3)
    report = verify_chain(rows, text_of=lambda row: row.canonical if row.id != 6 else "{}")
    assert found(report) == {("altered", 6)}
    assert "shows other data" in report.problems[0].message


def test_all_problems_are_named() -> None:
    rows = chain(12)
    rows[8] = replace(rows[8], canonical="not JSON at all")
    del rows[3]
    assert found(verify_chain(rows)) == {("deleted", rows[3].id), ("altered", rows[7].id)}


def test_record_text_is_canonical() -> None:
    hour = timezone(timedelta(hours=1))
    fields = {
        "reviewed_at": datetime(2030, 1, 2, 3, 4, 5, 6, tzinfo=hour),
        "id": UUID(int=1),
        "version": 12,
        "waited": 3.0,
    }
    same = {**dict(reversed(fields.items())), "reviewed_at": datetime(2030, 1, 2, 2, 4, 5, 6, UTC)}
    assert record_text(fields) == record_text(same)
    assert record_text(fields) == (
        '{"id":"00000000-0000-0000-0000-000000000001",'
        '"reviewed_at":"2030-01-02T02:04:05.000006+00:00","version":12,"waited":3}'
    )


def test_digests_distinguish_null_from_absent() -> None:
    both = digests({"a": 1}, {"a": 1.0})
    assert both.shown == both.decided
    assert both.executed == ""
    assert digests(None, 1, None).executed == digests(None, 1).shown != ""
    assert isinstance(both, Digests)


@pytest.mark.parametrize(("previous", "text"), [("a" * 64, "b"), ("a" * 63, "ab")])
def test_hash_depends_on_both_parts(previous: str, text: str) -> None:
    assert record_hash(previous, text) != record_hash(GENESIS, text)
    assert len(record_hash(previous, text)) == 64
