"""Outputs to review, further rounds, and what the caller reports in the end."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from reviews.audit import exports, history
from reviews.audit.verification import verify_audit
from reviews.models import HumanReviewRecord, Notice
from tests.integration.reviews.notifications.conftest import consume_journal
from tests.integration.workflows.approvals.conftest import (
    PAY,
    Agent,
    decided,
    hold_of,
    row_of,
)
from workflows.engine.values.bounded_json import digest
from workflows.executions.jobs import run_to_rest
from workflows.journal.sweeper_queries import take_overdue
from workflows.journal.writer import JournalRun, replayed
from workflows.models import Execution, ExecutionReceipt, TaskAttempt
from workflows.permissions.tokens import create_token

pytestmark = pytest.mark.django_db


def draft(agent: Agent, output: Any = "Dear Ada", **fields: Any) -> dict[str, Any]:
    action = {"name": "mail.draft", "arguments": {"to": "Ada"}, "output": output}
    return agent.asked(action=action, phase="AFTER_EXECUTION", **fields)


def errors(response: Any) -> dict[str, str]:
    assert response.status_code == 422, response.content
    return {each["path"]: each["code"] for each in response.json()["errors"]}


@pytest.mark.parametrize("output", ["Dear Ada", {"text": "Dear Ada"}, None, [], 0])
def test_an_output_is_reviewed(agent: Agent, reviewer: User, output: Any) -> None:
    body = draft(agent, output)
    hold = hold_of(body)
    assert (hold.phase, hold.payload) == ("AFTER_EXECUTION", output)
    decided(body, reviewer)
    answer = agent.get(body["id"])
    assert (answer["status"], answer["output"]) == ("approved", output)
    assert answer["arguments"] == {"to": "Ada"}


def test_an_edited_output_reaches_the_caller(agent: Agent, reviewer: User) -> None:
    body = draft(agent)
    decided(body, reviewer, edits="Dear Ada,")
    answer = agent.get(body["id"])
    assert (answer["output"], answer["edited"]) == ("Dear Ada,", True)


def test_changes_are_requested_and_made(agent: Agent, reviewer: User) -> None:
    body = agent.asked()
    decided(body, reviewer, "REQUEST_CHANGES", comment="half of it")
    answer = agent.get(body["id"])
    assert (answer["status"], answer["comment"]) == ("changes_requested", "half of it")
    assert answer["changes_left"] == 3
    assert replayed(row_of(body).execution_id).tasks["payments.transfer"].waits_for_caller
    changed = {**PAY, "amount": 125}
    again = agent.post(f"{body['id']}/resubmit/", {"arguments": changed}).json()
    assert (again["status"], again["round"], again["arguments"]) == ("pending", 2, changed)
    assert again["hold_id"] != body["hold_id"]
    assert hold_of(body).previous_id == body["hold_id"]
    decided(body, reviewer)
    assert agent.get(body["id"])["arguments"] == changed
    records = HumanReviewRecord.objects.order_by("id").values_list("decision", flat=True)
    assert list(records) == ["REQUEST_CHANGES", "APPROVE"]


def test_an_output_is_changed_too(agent: Agent, reviewer: User) -> None:
    body = draft(agent)
    decided(body, reviewer, "REQUEST_CHANGES", comment="friendlier")
    again = agent.post(f"{body['id']}/resubmit/", {"output": "Dearest Ada"}).json()
    assert (again["status"], again["output"]) == ("pending", "Dearest Ada")
    decided(body, reviewer)
    assert agent.get(body["id"])["output"] == "Dearest Ada"


def test_a_resubmission_is_checked(agent: Agent, reviewer: User) -> None:
    schema = {"type": "object", "properties": {"amount": {"maximum": 300}}}
    body = agent.asked(action={"schema": schema}, editable=["/amount"])
    path = f"{body['id']}/resubmit/"
    early = agent.post(path, {"arguments": PAY})
    assert (early.status_code, early.json()["reason"]) == (409, "not_waiting")
    decided(body, reviewer, "REQUEST_CHANGES", comment="less")
    assert errors(agent.post(path, {})) == {"arguments": "required"}
    assert errors(agent.post(path, {"arguments": PAY, "output": 1})) == {"output": "required"}
    too_much = {"arguments": {**PAY, "amount": 301}}
    assert errors(agent.post(path, too_much)) == {"arguments.amount": "schema_mismatch"}
    elsewhere = {"arguments": {**PAY, "amount": 1, "to": "EVIL", "more": 1}}
    assert errors(agent.post(path, elsewhere)) == {
        "arguments.to": "locked",
        "arguments.more": "locked",
    }
    assert agent.post(path, {"arguments": {**PAY, "amount": 1}}).json()["status"] == "pending"


def test_the_result_is_the_receipt(agent: Agent, reviewer: User) -> None:
    body = agent.asked()
    decided(body, reviewer, edits={"amount": 100})
    final = agent.get(body["id"])["arguments"]
    report = {"ok": True, "output": {"receipt": "R-1"}, "arguments": final}
    answer = agent.post(f"{body['id']}/result/", report).json()
    assert answer["status"] == "completed"
    assert answer["result"]["output"] == {"receipt": "R-1"}
    assert answer["result"]["mismatch"] is False
    receipt = ExecutionReceipt.objects.get()
    assert (receipt.hold_id, receipt.digest) == (body["hold_id"], digest(final))


def test_the_record_does_not_claim_what_nobody_reported(agent: Agent, reviewer: User) -> None:
    body = agent.asked()
    decided(body, reviewer)
    client = Client()
    client.force_login(reviewer)
    url = reverse("reviews:record", args=(HumanReviewRecord.objects.get().pk,))
    unknown = "Unknown: the agent has not reported the arguments."
    assert unknown in client.get(url).content.decode()
    agent.post(f"{body['id']}/result/", {"ok": True, "arguments": PAY})
    text = client.get(url).content.decode()
    assert unknown not in text
    assert "the executed data is the approved data" in text


def executed_of(user: User) -> Any:
    """What the record's response says about the executed data."""
    _, text = create_token(user=user, name="r", scopes=["read"])
    client = APIClient(headers={"Authorization": f"Bearer {text}"})
    record = HumanReviewRecord.objects.get()
    return client.get(f"/api/v1/reviews/history/{record.pk}/").json()


def test_other_arguments_are_flagged_on_the_record(agent: Agent, reviewer: User) -> None:
    body = agent.asked()
    decided(body, reviewer)
    assert not ExecutionReceipt.objects.exists()
    report = {"ok": True, "arguments": {**PAY, "amount": 999}}
    answer = agent.post(f"{body['id']}/result/", report).json()
    assert answer["result"]["mismatch"] is True
    event = row_of(body).execution.events.get(kind="result_reported")
    assert event.payload["mismatch"] is True
    assert "executed_digest" not in event.payload
    record = executed_of(reviewer)
    assert digest(report["arguments"]) in str(record)
    client = Client()
    client.force_login(reviewer)
    page = client.get(reverse("reviews:record", args=(HumanReviewRecord.objects.get().pk,)))
    text = page.content.decode()
    assert "the executed data differs from the approved data" in text
    assert "999" in text
    run = client.get(reverse("reviews:run", args=(body["execution_id"],))).content.decode()
    assert "with other arguments than the approved ones" in run
    consume_journal()
    notice = Notice.objects.get(kind="mismatch")
    assert notice.user == reviewer
    assert notice.read_at is None
    assert "other arguments" in client.get(reverse("reviews:notices")).content.decode()
    assert replayed(row_of(body).execution_id).result_reported


@pytest.mark.parametrize(
    ("stated", "mismatch"),
    [
        ({"arguments": {"n": 1.0, "ü": "ß"}}, False),
        ({"arguments": {"ü": "ß", "n": 1}}, False),
        ({"arguments_digest": digest({"n": 1, "ü": "ß"})}, False),
        ({"arguments": {"n": "1", "ü": "ß"}}, True),
        ({"arguments": {"n": True, "ü": "ß"}}, True),
        ({"arguments": {"n": 1, "u\u0308": "ß"}}, True),
        ({"arguments_digest": digest({"n": 2})}, True),
        ({}, False),
    ],
)
def test_the_digest_is_that_of_the_values(
    agent: Agent, reviewer: User, stated: dict[str, Any], mismatch: bool
) -> None:
    body = agent.asked(action={"arguments": {"n": 1, "ü": "ß"}})
    decided(body, reviewer)
    answer = agent.post(f"{body['id']}/result/", {"ok": True, **stated}).json()
    assert answer["result"]["mismatch"] is mismatch


def test_a_result_comes_once_and_after_the_decision(agent: Agent, reviewer: User) -> None:
    body = agent.asked()
    path = f"{body['id']}/result/"
    early = agent.post(path, {"ok": True})
    assert (early.status_code, early.json()["reason"]) == (409, "not_approved")
    decided(body, reviewer)
    both = {"ok": True, "arguments": PAY, "arguments_digest": "0" * 64}
    assert errors(agent.post(path, both)) == {"arguments_digest": "twice"}
    assert agent.post(path, {"ok": False, "error": "declined"}).json()["status"] == "failed"
    twice = agent.post(path, {"ok": True})
    assert (twice.status_code, twice.json()["reason"]) == (409, "reported")
    answer = agent.get(body["id"])
    assert (answer["status"], answer["result"]["error"]) == ("failed", "declined")


def test_a_rejected_action_has_no_result(agent: Agent, reviewer: User) -> None:
    body = agent.asked()
    decided(body, reviewer, "REJECT", comment="no")
    response = agent.post(f"{body['id']}/result/", {"ok": True})
    assert (response.status_code, response.json()["reason"]) == (409, "not_approved")


@pytest.mark.parametrize(("risk", "code"), [("high", "high_risk"), ("low", "done")])
def test_high_risk_is_never_approved_in_bulk(
    agent: Agent, reviewer: User, risk: str, code: str
) -> None:
    bodies = [draft(agent, risk=risk), agent.asked(risk=risk)]
    _, text = create_token(user=reviewer, name="r", scopes=["read", "decide"])
    client = APIClient(headers={"Authorization": f"Bearer {text}"})
    chosen = [{"hold_id": body["hold_id"], "version": body["version"]} for body in bodies]
    answer = client.post(
        "/api/v1/reviews/bulk/", {"action": "approve", "holds": chosen}, format="json"
    )
    assert [each["code"] for each in answer.json()["results"]] == [code, code], answer.content


def test_other_arguments_are_a_finding_and_no_broken_chain(
    agent: Agent, reviewer: User, tmp_path: Path
) -> None:
    body = agent.asked()
    decided(body, reviewer)
    agent.post(f"{body['id']}/result/", {"ok": True, "arguments": {**PAY, "amount": 999}})
    report = verify_audit()
    assert (report.problems, report.receipts) == ((), 1)
    assert len(report.reported) == 1
    assert "reported that it executed other arguments" in report.reported[0]
    printed = StringIO()
    call_command("verify_audit", stdout=printed)
    assert report.reported[0] in printed.getvalue()
    export = exports.create_export(history.records(reviewer), filters={}, user=reviewer)
    lines = list(export.lines("jsonl"))
    code, text = standalone(tmp_path, lines)
    assert (code, "REPORTED: receipt" in text) == (0, True)
    receipt = json.loads(lines[-2])
    assert receipt.pop("reported") is True
    code, text = standalone(tmp_path, [*lines[:-2], json.dumps(receipt) + "\n", lines[-1]])
    assert (code, "something else ran than was approved" in text) == (1, True)


def test_changed_arguments_of_an_action_are_found(agent: Agent, reviewer: User) -> None:
    body = agent.asked()
    decided(body, reviewer)
    agent.post(f"{body['id']}/result/", {"ok": True, "arguments": {**PAY, "amount": 999}})
    TaskAttempt.objects.filter(execution=body["execution_id"]).update(inputs={"amount": 999})
    problems = verify_audit().problems
    assert len(problems) == 1
    assert "shows other data now than it ran with" in problems[0]


def standalone(folder: Path, lines: list[str]) -> tuple[int, str]:
    """Exit code and output of the verifier that auditors download."""
    file = folder / "history.jsonl"
    file.write_text("".join(lines))
    script = settings.BASE_DIR / "reviews/static/reviews/verify_history.py"
    command = [sys.executable, str(script), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.django_db(transaction=True)
def test_an_action_that_is_not_submitted_again_expires(
    agent: Agent, reviewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = agent.asked(timeout_seconds=3600)
    decided(body, reviewer, "REQUEST_CHANGES", comment="half of it")
    waiting = agent.get(body["id"])
    assert (waiting["status"], waiting["expires_at"] > body["expires_at"]) == (
        "changes_requested",
        True,
    )
    listed = agent.client.get("/api/v1/approvals/").json()["results"][0]
    assert listed["expires_at"] == waiting["expires_at"]
    number = row_of(body).execution_id
    run_to_rest(number)
    assert agent.get(body["id"])["status"] == "changes_requested"
    now = JournalRun.now
    monkeypatch.setattr(JournalRun, "now", lambda run: now(run) + 3600)
    passed = timezone.now() - timedelta(hours=1)
    Execution.objects.filter(pk=number).update(dispatched_at=passed, wake_at=passed)
    assert take_overdue(patience=1) == [number]
    run_to_rest(number)
    answer = agent.get(body["id"])
    assert (answer["status"], answer["decided_by"]) == ("expired", None)
    assert answer["comment"].startswith("Changes were requested, and the agent did not")
    again = agent.post(f"{body['id']}/resubmit/", {"arguments": PAY})
    assert again.status_code == 409
