"""Queue, decision, run and history pages: content, decisions in the browser, visibility."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from reviews.decisions import services
from reviews.models import HumanReviewRecord
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold
from tests.integration.reviews.pages import decision_fields, post_decision, review_path
from tests.support.pages import HTMX, Page, browser, open_page
from workflows.executions.jobs import run_to_rest
from workflows.models import Execution, TaskAttempt, Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE, AFTER = "BEFORE_EXECUTION", "AFTER_EXECUTION"


@pytest.fixture
def paused(start: Start) -> Execution:
    return start(echo("a", {"path": "x.md", "lines": 3}, phase=BEFORE), echo("b", {"$from": "a"}))


@pytest.fixture
def workflow(start: Start) -> Workflow:
    return Workflow.objects.create(
        name="greet",
        title="Greeting",
        plan={"tasks": [echo("a", {"$from": "inputs", "select": "text"}, phase=AFTER)]},
        inputs_schema={
            "type": "object",
            "required": ["text"],
            "properties": {"text": {"type": "string", "minLength": 3}},
            "additionalProperties": False,
        },
        default_inputs={"text": "hello"},
    )


PAGES = ("/review/", "/runs/", "/workflows/", "/history/", "/tools/")


@pytest.mark.parametrize("path", [*PAGES, "/review/1/1-1/", "/runs/1/", "/history/1/"])
def test_every_page_asks_for_a_login(path: str) -> None:
    answer = browser(None).get(path)
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/login/")


@pytest.mark.parametrize("role", ["reviewer", "auditor", "operator", "integrator", "admin", "none"])
def test_every_page_opens_for_every_role(
    paused: Execution, workflow: Workflow, make_user: MakeUser, role: str
) -> None:
    client = browser(make_user("somebody", role))
    for path in (*PAGES, f"/workflows/{workflow.pk}/", "/review/?tab=open", "/tools/?q=read"):
        assert client.get(path).status_code == 200, path


def test_invisible_objects_are_404(paused: Execution, make_user: MakeUser) -> None:
    client = browser(make_user("stranger", "other"))
    hold = only_hold(paused)
    for path in (review_path(hold), f"{review_path(hold)}status/", f"/runs/{paused.pk}/"):
        assert client.get(path).status_code == 404
    assert client.post(review_path(hold), {"decision": "APPROVE"}).status_code == 404
    assert client.post(f"/runs/{paused.pk}/commands/", {"kind": "abort"}).status_code == 404
    queue = client.get("/review/?tab=open")
    assert queue.context["rows"] == ()
    assert review_path(hold) not in Page(queue).links


def test_the_queue_describes_the_effect_of_each_review(paused: Execution, reviewer: User) -> None:
    hold = only_hold(paused)
    queue = browser(reviewer).get("/review/")
    (row,) = queue.context["rows"]
    assert "will run in “Ad-hoc run”" in row["sentence"]
    assert queue.context["waiting_count"] == 1
    assert review_path(hold) in Page(queue).links
    beside = open_page(reviewer, f"/review/?hold={hold.id}")
    assert "Inputs" in beside.names("heading")
    part = open_page(reviewer, "/review/", **HTMX, **{"HX-Target": "queue-list"})
    assert not part.is_whole
    assert part.names("navigation") == ["Which reviews"]
    assert review_path(hold) in part.links


@pytest.mark.parametrize("query", ["cursor=x", "cursor=WzFd", "cursor=W251bGwsMV0"])
def test_a_forged_cursor_is_404(reviewer: User, query: str) -> None:
    assert browser(reviewer).get(f"/review/?{query}").status_code == 404


def test_the_decision_page_shows_the_whole_hold(paused: Execution, reviewer: User) -> None:
    path = review_path(only_hold(paused))
    page = open_page(reviewer, path)
    for words in ("echo will run with these arguments", "If you reject", "asks for review"):
        assert words in page.text
    assert "The run continues with b." in page.text
    assert page.answers("decision") == {"APPROVE", "REJECT"}
    fragment = browser(reviewer).get(path, headers=HTMX)
    assert not Page(fragment).is_whole
    assert "HX-Request" in fragment.headers["Vary"]


def test_an_edited_approval_leads_to_the_next_review(paused: Execution, reviewer: User) -> None:
    client, hold = browser(reviewer), only_hold(paused)
    value = json.dumps({"path": "y.md", "lines": 3})
    answer = post_decision(client, hold, decision="APPROVE", confirmed="yes", **{"j:/value": value})
    assert answer.status_code == 303
    assert answer.headers["Location"] == review_path(hold)
    record = HumanReviewRecord.objects.get()
    assert record.modified_data == {"value": {"path": "y.md", "lines": 3}}
    assert record.source == "web"
    run_to_rest(paused.pk)
    row = TaskAttempt.objects.get(execution=paused, task_id="b")
    assert row.output == {"path": "y.md", "lines": 3}
    decided = client.get(review_path(hold))
    assert decided.context["d"]["decided"]["sentence"] == "reviewer approved this with 1 change"
    assert f"/history/{record.pk}/" in Page(decided).links


def test_an_edit_without_scripts_is_confirmed(paused: Execution, reviewer: User) -> None:
    client, hold = browser(reviewer), only_hold(paused)
    answer = post_decision(
        client, hold, decision="APPROVE", confirmed="", **{"j:/value": '"other"'}
    )
    assert answer.status_code == 200
    assert "Approve with 1 change" in Page(answer).names("button")
    assert not HumanReviewRecord.objects.exists()


def test_json_mode_edits_the_whole_value(start: Start, reviewer: User) -> None:
    execution = start(echo("a", {"n": 12345678901234567890}, phase=AFTER))
    hold = only_hold(execution)
    answer = post_decision(
        browser(reviewer),
        hold,
        decision="APPROVE",
        mode="json",
        edits_json='{"n": 12345678901234567891}',
        confirmed="yes",
    )
    assert answer.status_code == 303
    assert HumanReviewRecord.objects.get().modified_data == {"n": 12345678901234567891}


def test_an_output_becomes_null_as_json(start: Start, reviewer: User) -> None:
    hold = only_hold(start(echo("a", {"n": 1}, phase=AFTER)))
    sent = {"decision": "APPROVE", "mode": "json", "edits_json": "null"}
    asked = post_decision(browser(reviewer), hold, **sent, confirmed="")
    assert (asked.status_code, HumanReviewRecord.objects.count()) == (200, 0)
    answer = post_decision(browser(reviewer), hold, **sent, confirmed="yes")
    assert answer.status_code == 303
    record = HumanReviewRecord.objects.get()
    assert (record.is_edited, record.modified_data) == (True, None)
    assert browser(reviewer).get(review_path(hold)).status_code == 200
    assert browser(reviewer).get(f"/history/{record.pk}/").status_code == 200


@pytest.mark.parametrize(
    "text", ["{", '{"n": 1e400}', r'{"n": "\u0000"}', "[" * 5000, '{"n": 1, "n": 2}']
)
def test_invalid_json_is_422_and_the_text_is_preserved(
    start: Start, reviewer: User, text: str
) -> None:
    hold = only_hold(start(echo("a", {"n": 1}, phase=AFTER)))
    answer = post_decision(
        browser(reviewer), hold, decision="APPROVE", mode="json", edits_json=text, comment="keep me"
    )
    assert answer.status_code == 422
    page = Page(answer)
    assert page.names("alert")[0].startswith("Nothing was submitted: 1 value is invalid.")
    assert decision_fields(page)["comment"] == "keep me"
    hold.refresh_from_db()
    assert hold.status == "OPEN"


def test_an_invalid_field_is_422_with_its_error(start: Start, reviewer: User) -> None:
    task = {
        "id": "w",
        "type": "tool",
        "tool": "builtin.wait",
        "arguments": {"seconds": 0},
        "human_review": {"trigger_phase": BEFORE},
    }
    hold = only_hold(start(task))
    client = browser(reviewer)
    for text, words in (("soon", "must be a number"), ("-1", "must be at least 0")):
        answer = post_decision(
            client, hold, decision="APPROVE", confirmed="yes", **{"v:/seconds": text}
        )
        assert answer.status_code == 422
        assert [each.message for each in answer.context["d"]["errors"]] == [words]
        assert decision_fields(Page(answer))["v:/seconds"] == text
    hold.refresh_from_db()
    assert hold.status == "OPEN"


def test_a_late_decision_preserves_its_text(
    paused: Execution, reviewer: User, reviewer2: User
) -> None:
    hold, client = only_hold(paused), browser(reviewer)
    form = decision_fields(Page(client.get(review_path(hold))))
    decide(hold, reviewer2)
    mine = {**form, "decision": "APPROVE", "confirmed": "yes", "j:/value": '"mine"'}
    answer = client.post(review_path(hold), {**mine, "comment": "my words"}, headers=HTMX)
    assert answer.status_code == 409
    page = Page(answer)
    assert answer.context["d"]["decided"]["sentence"] == "reviewer2 approved this"
    assert "You had written" in page.text
    assert "my words" in page.text
    assert HumanReviewRecord.objects.count() == 1


def test_a_run_that_moved_on_is_409_and_the_hold_can_be_decided_again(
    start: Start, reviewer: User
) -> None:
    execution = start(echo("a", phase=BEFORE), echo("b", phase=BEFORE))
    first, second = execution.holds.order_by("opened_seq")
    client = browser(reviewer)
    form = decision_fields(Page(client.get(review_path(second))))
    assert post_decision(client, first, decision="APPROVE").status_code == 303
    answer = client.post(review_path(second), {**form, "decision": "APPROVE", "comment": "kept"})
    assert answer.status_code == 409
    page = Page(answer)
    assert page.names("alert")[0].startswith("The run has changed while you were deciding.")
    assert decision_fields(page)["comment"] == "kept"
    again = client.post(review_path(second), {**decision_fields(page), "decision": "APPROVE"})
    assert again.status_code == 303


def test_a_rejection_ignores_the_edit(paused: Execution, reviewer: User) -> None:
    hold = only_hold(paused)
    answer = post_decision(
        browser(reviewer), hold, decision="REJECT", comment="no", **{"j:/value": "{"}
    )
    assert answer.status_code == 303
    paused.refresh_from_db()
    assert paused.status == "ABORTED"


def test_a_post_needs_its_csrf_token(paused: Execution, reviewer: User) -> None:
    client, hold = browser(reviewer, csrf=True), only_hold(paused)
    form = decision_fields(Page(client.get(review_path(hold))))
    del form["csrfmiddlewaretoken"]
    assert client.post(review_path(hold), {**form, "decision": "APPROVE"}).status_code == 403


def test_an_auditor_sees_and_cannot_decide(paused: Execution, auditor: User) -> None:
    client, hold = browser(auditor), only_hold(paused)
    answer = client.get(review_path(hold))
    assert answer.context["d"]["can_reject"] is False
    assert answer.context["d"]["blocked_reason"] == "Auditors can read decisions but not make them."
    assert Page(answer).answers("decision") == set()
    assert "You cannot decide this." in Page(answer).text
    posted = client.post(
        review_path(hold),
        {"decision": "APPROVE", "version": str(paused.version)},
    )
    assert posted.status_code == 403
    assert not HumanReviewRecord.objects.exists()


def test_an_expired_review_is_marked(start: Start, reviewer: User) -> None:
    execution = start(echo("a", phase=BEFORE, timeout_seconds=0.01, on_timeout="approve"))
    hold = only_hold(execution)
    while not services.expire(hold.id):
        pass
    page = open_page(reviewer, review_path(hold))
    assert "Timed out: it was approved as it was." in page.text
    assert "Arguments of echo" in page.names("heading")
    record = HumanReviewRecord.objects.get()
    assert (record.actor, record.reviewer, record.decision) == ("system", None, "APPROVE")
    assert "timed out and was approved" in open_page(reviewer, "/history/").text


# --- runs, workflows, history ---------------------------------------------------------------------


def test_the_timeline_covers_the_whole_run(paused: Execution, reviewer: User) -> None:
    path = f"/runs/{paused.pk}/"
    run = browser(reviewer).get(path)
    assert [each["sentence"] for each in run.context["run"]["holds"]] == [
        "a waits for the reviewer group"
    ]
    assert b"data-socket" in run.content
    decide(only_hold(paused), reviewer)
    run_to_rest(paused.pk)
    part = open_page(reviewer, path, **HTMX)
    assert not part.is_whole
    for words in ("reviewer approved a", "the run is complete", "Layer 2"):
        assert words in part.text


def test_a_workflow_is_started_from_its_form(workflow: Workflow, operator: User) -> None:
    client = browser(operator)
    path = f"/workflows/{workflow.pk}/start/"
    refused = client.post(path, {"v:/text": "hi"})
    assert refused.status_code == 422
    assert "at least 3" in Page(refused).text
    started = client.post(path, {"v:/text": "good day"})
    assert started.status_code == 303
    execution = Execution.objects.latest("id")
    assert started.headers["Location"] == f"/runs/{execution.pk}/"
    assert execution.inputs == {"text": "good day"}
    assert execution.created_by == operator


def test_reviewers_cannot_start_workflows(workflow: Workflow, auditor: User) -> None:
    client = browser(auditor)
    assert client.post(f"/workflows/{workflow.pk}/start/").status_code == 403
    assert client.post("/runs/demo/").status_code == 403
    page = open_page(auditor, f"/workflows/{workflow.pk}/")
    assert f"/workflows/{workflow.pk}/start/" not in page.actions


def test_a_run_is_steered_by_commands(paused: Execution, operator: User, reviewer: User) -> None:
    path = f"/runs/{paused.pk}/commands/"
    assert browser(reviewer).post(path, {"kind": "abort"}).status_code == 403
    client = browser(operator)
    client.post(path, {"kind": "message", "text": "please hurry"})
    assert "please hurry" in open_page(operator, f"/runs/{paused.pk}/").text
    refused = client.post(path, {"kind": "continue", "version": "1"}, follow=True)
    assert "The run has changed" in Page(refused).text
    empty = client.post(path, {"kind": "message", "text": ""}, follow=True)
    assert "The message was not sent" in Page(empty).text
    assert client.post(path, {"kind": "abort", "reason": "wrong repo"}).status_code == 303
    paused.refresh_from_db()
    assert (paused.status, paused.error) == ("ABORTED", "wrong repo")
    hold = paused.holds.get()
    assert "operator aborted the run" in open_page(reviewer, review_path(hold)).text


def test_history_filters_and_the_record(paused: Execution, reviewer: User, auditor: User) -> None:
    result = decide(only_hold(paused), reviewer, edits={"value": "short"})
    run_to_rest(paused.pk)
    client, path = browser(auditor), f"/history/{result.record.pk}/"
    assert path in open_page(auditor, "/history/?decision=APPROVE").links
    none = client.get("/history/?decision=REJECT")
    assert none.context["rows"] == ()
    assert path not in Page(none).links
    (error,) = client.get("/history/?decision=MAYBE").context["filter_errors"]
    assert "must be one of" in error
    record = open_page(auditor, path)
    assert "the executed data is the approved data" in record.text
    assert result.record.hash in record.text
    assert client.get("/history/999999/").status_code == 404


def test_hostile_payloads_are_escaped(start: Start, reviewer: User) -> None:
    evil = "<script>alert(1)</script>\"'{{ 7 }}\u202egnp.exe"
    execution = start(echo("a", {evil: evil}, phase=BEFORE, instructions=evil))
    client = browser(reviewer)
    for path in (review_path(only_hold(execution)), f"/runs/{execution.pk}/", "/review/"):
        html = client.get(path).content.decode()
        assert "<script>alert" not in html
        assert "\u202e" not in html[: html.index("<main")]
