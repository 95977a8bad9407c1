"""Receipts of executed data, linked to the decision that allowed it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import DatabaseError, connection, transaction
from rest_framework.test import APIClient

from reviews.audit.chain import record_hash, record_text
from reviews.decisions import services
from reviews.models import HumanReviewRecord
from tests.integration.reviews.audit.test_tampering import as_owner, product, standalone
from tests.integration.reviews.conftest import Start, echo, only_hold
from tests.support.pages import browser, open_page
from workflows.engine.values.bounded_json import digest
from workflows.executions.jobs import run_to_rest
from workflows.models import Execution, ExecutionReceipt

if TYPE_CHECKING:
    from django.contrib.auth.models import User

BEFORE, AFTER = "BEFORE_EXECUTION", "AFTER_EXECUTION"

pytestmark = pytest.mark.django_db(transaction=True)


def decide(execution: Execution, user: User, decision: str = "APPROVE", **more: Any) -> Execution:
    """Decide the one open hold, and let the run go on until it rests."""
    hold = only_hold(Execution.objects.get(pk=execution.pk))
    more = {"comment": "no" if decision != "APPROVE" else "", "source": "web", **more}
    services.decide(
        services.DecisionRequest(
            hold_id=hold.id,
            user=user,
            decision=decision,
            version=hold.execution.version,
            **more,
        )
    )
    return run_to_rest(execution.pk)


def receipts(execution: Execution) -> list[tuple[str, int, str, str]]:
    rows = ExecutionReceipt.objects.filter(execution=execution).order_by("sequence")
    return list(rows.values_list("task_id", "attempt", "phase", "digest"))


def test_a_tasks_inputs_are_stored_with_its_decision(start: Start, reviewer: User) -> None:
    execution = start(echo("a", "first", phase=BEFORE), echo("b"))
    assert receipts(execution) == []
    decide(execution, reviewer, edits={"value": "second"})
    assert receipts(execution) == [("a", 1, BEFORE, digest({"value": "second"}))]
    record, receipt = HumanReviewRecord.objects.get(), ExecutionReceipt.objects.get()
    assert (receipt.decision_hash, receipt.digest) == (record.hash, record.decided_digest)
    assert (receipt.sequence, receipt.previous_hash) == (1, "0" * 64)


def test_the_output_that_later_tasks_read_is_stored_with_its_decision(
    start: Start, reviewer: User
) -> None:
    second = echo("b", {"$from": "a"}) | {"depends_on": ["a"]}
    execution = start(echo("a", "first", phase=AFTER), second)
    decide(execution, reviewer, edits="second")
    assert receipts(execution) == [("a", 1, AFTER, digest("second"))]
    assert execution.attempts.get(task_id="b").inputs == {"value": "second"}
    assert HumanReviewRecord.objects.get().decided_digest == digest("second")


def test_each_try_of_an_approved_task_has_its_receipt(
    start: Start, reviewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = echo("a", phase=BEFORE) | {
        "tool": "builtin.fail",
        "arguments": {"message": "x", "retryable": True},
        "retry": {"max_attempts": 2, "backoff_seconds": 0},
    }
    execution = decide(start(task), reviewer)
    assert [row[:3] for row in receipts(execution)] == [("a", 1, BEFORE), ("a", 2, BEFORE)]
    assert len({row[3] for row in receipts(execution)}) == 1


@pytest.mark.parametrize("phase", [BEFORE, AFTER])
def test_a_task_that_did_not_run_has_no_receipt(start: Start, reviewer: User, phase: str) -> None:
    rejected = start(echo("a", phase=phase, on_reject="skip"), echo("b"))
    decide(rejected, reviewer, "REJECT")
    spared = start(echo("a", phase=phase, skip_when="`true`"))
    assert not ExecutionReceipt.objects.filter(execution__in=(rejected, spared)).exists()


def test_a_quorum_is_linked_to_its_last_approval(
    start: Start, reviewer: User, reviewer2: User
) -> None:
    execution = start(echo("a", phase=BEFORE, quorum=2))
    decide(execution, reviewer)
    assert receipts(execution) == []
    decide(execution, reviewer2)
    last = HumanReviewRecord.objects.latest("id")
    assert ExecutionReceipt.objects.get().decision_hash == last.hash


def test_an_output_that_was_sent_back_is_linked_to_the_approval_of_its_next_round(
    start: Start, reviewer: User
) -> None:
    execution = start(echo("a", phase=AFTER))
    decide(execution, reviewer, "REQUEST_CHANGES")
    decide(execution, reviewer)
    assert [row[:3] for row in receipts(execution)] == [("a", 2, AFTER)]
    assert (
        ExecutionReceipt.objects.get().decision_hash == HumanReviewRecord.objects.latest("id").hash
    )


def test_receipts_cannot_be_changed_nor_given_a_place_of_their_own(
    start: Start, reviewer: User
) -> None:
    execution = start(echo("a", phase=BEFORE))
    decide(execution, reviewer)
    for statement in ("UPDATE {} SET digest = ''", "DELETE FROM {}", "TRUNCATE {}"):
        with (
            pytest.raises(DatabaseError, match="append-only"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(statement.format("workflows_executionreceipt"))
    receipt = ExecutionReceipt.objects.get()
    ExecutionReceipt.objects.create(
        execution=execution,
        hold=receipt.hold,
        task_id="a",
        attempt=99,
        phase=BEFORE,
        digest="f" * 64,
        sequence=1_000,
        executed_at="2001-01-01T00:00:00Z",
        decision_hash="e" * 64,
        canonical="{}",
        previous_hash="d" * 64,
        hash="c" * 64,
    )
    forged = ExecutionReceipt.objects.get(attempt=99)
    assert (forged.sequence, forged.previous_hash) == (2, receipt.hash)
    assert forged.executed_at > receipt.executed_at
    assert forged.decision_hash == receipt.decision_hash


# --- shown and checked ----------------------------------------------------------------------------


@pytest.fixture
def ran(start: Start, reviewer: User) -> Execution:
    """A run with a reviewed task before and one after; both approved, one edited."""
    execution = start(echo("a", "first", phase=BEFORE), echo("b", phase=AFTER))
    for _ in range(2):
        hold = Execution.objects.get(pk=execution.pk).holds.filter(status="OPEN")[0]
        edits = {"edits": {"value": "second"}} if hold.task_id == "a" else {}
        services.decide(
            services.DecisionRequest(
                hold_id=hold.id,
                user=reviewer,
                decision="APPROVE",
                version=hold.execution.version,
                source="web",
                **edits,
            )
        )
    return run_to_rest(execution.pk)


def export(user: User, kind: str, **query: str) -> str:
    client = browser(user)
    answer: Any = client.get("/history/export/", {"as": kind, **query})
    return b"".join(answer.streaming_content).decode()


def test_rest_shows_the_receipt_in_the_list_and_the_record(ran: Execution, auditor: User) -> None:
    client = APIClient()
    client.force_authenticate(auditor)
    rows = client.get("/api/v1/reviews/history/").json()["results"]
    assert {row["node_id"]: row["executed_digest"] for row in rows} == {
        "a": digest({"value": "second"}),
        "b": digest("text"),
    }
    for row in rows:
        record = client.get(f"/api/v1/reviews/history/{row['id']}/").json()
        (receipt,) = record["receipts"]
        assert receipt["digest"] == record["executed_digest"] == record["decided_digest"]
        assert receipt["decision_hash"] == record["hash"]


def test_exports_include_receipts(ran: Execution, auditor: User) -> None:
    header, first, second, *receipts, _ = map(json.loads, export(auditor, "jsonl").splitlines())
    assert (header["rows"], header["receipts"], len(receipts)) == (2, 2, 2)
    assert header["receipts_head"] == receipts[-1]["hash"]
    for record in (first, second):
        (receipt,) = [each for each in receipts if each["decision_hash"] == record["hash"]]
        assert receipt["digest"] == record["executed_digest"] == record["decided_digest"]
    part = list(map(json.loads, export(auditor, "jsonl", edited="true").splitlines()))
    assert (part[0]["rows"], part[0]["receipts"], len(part)) == (1, 1, 4)
    table = list(csv.reader(io.StringIO(export(auditor, "csv"))))
    assert [dict(zip(table[1], row, strict=True))["executed_digest"] for row in table[2:]] == [
        first["executed_digest"],
        second["executed_digest"],
    ]


def test_the_record_page_shows_the_receipt(ran: Execution, auditor: User) -> None:
    record = HumanReviewRecord.objects.get(node_id="a")
    page = open_page(auditor, f"/history/{record.pk}/")
    assert page.text.count(digest({"value": "second"})) == 2
    assert "the executed data is the approved data" in page.text
    ran.attempts.filter(task_id="a").update(inputs={"value": "third"})
    later = open_page(auditor, f"/history/{record.pk}/")
    assert "the stored data of the task differs from the executed data" in later.text


def test_the_record_page_shows_line_breaks(start: Start, reviewer: User, auditor: User) -> None:
    decide(start(echo("a", r"C:\new", phase=BEFORE)), reviewer, edits={"value": "first\nlast"})
    record = HumanReviewRecord.objects.get()
    columns = browser(auditor).get(f"/history/{record.pk}/").context["record"]["columns"]
    assert ["".join(part.text for part in column["segments"]) for column in columns] == [
        '{\n  "value": "C:\\\\new"\n}',
        *['{\n  "value": "first\nlast"\n}'] * 2,
    ]


def test_both_verifiers_check_receipts(ran: Execution, auditor: User, tmp_path: Path) -> None:
    assert product() == ""
    assert standalone(auditor, tmp_path) == ""


def rewritten(column: str, value: str) -> None:
    """Change a receipt as the tables' owner can: the chain of receipts is made to fit again."""
    receipt = ExecutionReceipt.objects.latest("sequence")
    text = json.loads(receipt.canonical)
    key = {"digest": "executed_digest"}.get(column, column)
    text[key] = value
    setattr(receipt, column, value)
    canonical = record_text(text)
    as_owner(
        f"UPDATE workflows_executionreceipt SET {column} = %s, canonical = %s, hash = %s"
        " WHERE id = %s",
        value,
        canonical,
        record_hash(receipt.previous_hash, canonical),
        receipt.pk,
    )


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        (
            "digest",
            "f" * 64,
            ("is not what record", "says that something else ran than was approved"),
        ),
        ("decision_hash", "f" * 64, ("not there", "names a decision that is not there")),
    ],
)
def test_a_receipt_of_another_task_is_named_even_in_a_valid_chain(
    ran: Execution, auditor: User, tmp_path: Path, column: str, value: str, said: tuple[str, str]
) -> None:
    rewritten(column, value)
    receipt = ExecutionReceipt.objects.latest("sequence").pk
    assert f"receipt {receipt}" in product()
    assert said[0] in product()
    assert f"receipt {receipt} {said[1]}" in standalone(auditor, tmp_path)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE workflows_executionreceipt SET digest = repeat('f', 64) WHERE id = %s", "another"),
        ("UPDATE workflows_executionreceipt SET hash = repeat('f', 64) WHERE id = %s", "the hash"),
        ("UPDATE workflows_executionreceipt SET executed_at = now() WHERE id = %s", "time"),
        ("DELETE FROM workflows_executionreceipt WHERE id = %s", "missing"),
    ],
)
def test_an_altered_receipt_is_named(
    ran: Execution, auditor: User, tmp_path: Path, statement: str, said: str
) -> None:
    as_owner(statement, ExecutionReceipt.objects.earliest("sequence").pk)
    assert "receipt" in product()
    assert said in standalone(auditor, tmp_path)


def test_a_task_whose_stored_inputs_were_changed_is_named(ran: Execution) -> None:
    """The product's role may write a task's row; what it ran with is kept beside it."""
    ran.attempts.filter(task_id="a").update(inputs={"value": "first"})
    assert f"task a of run {ran.pk} shows other data now than it ran with" in product()
