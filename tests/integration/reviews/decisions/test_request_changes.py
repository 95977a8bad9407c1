"""Sending a task's output back: the task runs again with the feedback, and is reviewed anew."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from django.urls import reverse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rest_framework.test import APIClient

from reviews.audit import history
from reviews.audit.chain import verify_chain
from reviews.audit.records import canonical_text
from reviews.decisions import withdrawal
from reviews.decisions.conflicts import Conflict
from reviews.decisions.edits import ReviewInvalid
from reviews.insights import statistics as insights_statistics
from reviews.models import HumanReviewRecord
from tests.integration.reviews.conftest import Start, decide, echo, only_hold
from tests.integration.reviews.decisions.test_withdrawal import at_once, end_undo_time
from tests.support.pages import Page, browser, open_page
from workflows.executions.jobs import advance, run_to_rest
from workflows.executions.selectors import messages_of
from workflows.models import Execution, Hold
from workflows.tools.context import ToolContext
from workflows.tools.registry import tool

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

AFTER, BEFORE = "AFTER_EXECUTION", "BEFORE_EXECUTION"
#: What can be stored: neither NUL nor half of a pair.
STORABLE = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
#: Keys that `redo` was called with, as tools with effects see them.
KEYS: list[str] = []


@tool(server="changekit", permission_set="readonly")
def redo(text: str, ctx: ToolContext, feedback: list[str] | None = None) -> dict[str, Any]:
    """Says the text, and what was asked for, both ways it is told."""
    KEYS.append(ctx.idempotency_key)
    return {"text": text, "input": feedback, "context": list(ctx.feedback)}


def drafting(name: str = "draft", **review: Any) -> dict[str, Any]:
    return {
        "id": name,
        "type": "tool",
        "tool": "changekit.redo",
        "arguments": {
            "text": name,
            "feedback": {"$from": "context", "select": "feedback"},
        },
        "human_review": {"trigger_phase": AFTER, **review},
    }


def say(hold: Hold, user: User, decision: str = "REQUEST_CHANGES", **more: Any) -> Any:
    version = Execution.objects.values_list("version", flat=True).get(pk=hold.execution_id)
    given: dict[str, Any] = {"version": version, "source": "test", **more}
    if decision == "REQUEST_CHANGES":
        given.setdefault("comment", "shorter")
    return decide(hold, user, decision, **given)


def next_hold(execution: Execution) -> Hold:
    return only_hold(run_to_rest(execution.pk))


def test_the_task_runs_again_with_the_feedback(start: Start, reviewer: User) -> None:
    KEYS.clear()
    execution = start(drafting(), echo("last", {"$from": "draft"}))
    first = only_hold(execution)
    assert (first.round, first.previous, first.changes_left) == (1, None, 3)
    assert first.payload == {"text": "draft", "input": None, "context": []}
    result = say(first, reviewer, comment="shorter")
    assert (result.status, result.complete) == ("RUNNING", True)
    first.refresh_from_db()
    assert (first.status, first.decision, first.decided_by) == (
        "RETURNED",
        "REQUEST_CHANGES",
        "reviewer",
    )
    second = next_hold(execution)
    assert (second.round, second.previous_id, second.changes_left) == (2, first.id, 2)
    assert second.payload == {"text": "draft", "input": ["shorter"], "context": ["shorter"]}
    say(second, reviewer, comment="no jokes")
    third = next_hold(execution)
    assert third.payload["input"] == ["shorter", "no jokes"]
    say(third, reviewer, "APPROVE")
    done = run_to_rest(execution.pk)
    assert done.status == "COMPLETED"
    assert done.attempts.get(task_id="last").output == third.payload
    assert [f"{execution.pk}:draft:{n}" for n in (1, 2, 3)] == KEYS
    tries = done.attempts.filter(task_id="draft").order_by("attempt")
    assert list(tries.values_list("attempt", "settled", "status")) == [
        (1, False, "SUCCEEDED"),
        (2, False, "SUCCEEDED"),
        (3, True, "SUCCEEDED"),
    ]
    said = [each["content"] for each in messages_of(done)]
    assert said == ["Changes requested for draft: shorter", "Changes requested for draft: no jokes"]
    assert done.context == {}, "the feedback is the task's own"
    rows = list(HumanReviewRecord.objects.order_by("id"))
    assert [row.decision for row in rows] == ["REQUEST_CHANGES"] * 2 + ["APPROVE"]
    assert [row.comment for row in rows] == ["shorter", "no jokes", ""]
    assert not verify_chain(rows, text_of=canonical_text).problems
    seqs = list(done.events.order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, len(seqs) + 1))


def test_dependents_wait_for_the_decision_on_the_new_output(start: Start, reviewer: User) -> None:
    execution = start(drafting(), echo("last", {"$from": "draft"}))
    say(only_hold(execution), reviewer)
    second = next_hold(execution)
    for _ in range(3):
        advance(execution.pk)
    assert not execution.attempts.filter(task_id="last").exists()
    say(second, reviewer, "REJECT")
    assert run_to_rest(execution.pk).status == "ABORTED"
    assert not execution.attempts.filter(task_id="last").exists()


def test_the_number_of_requests_is_bounded(start: Start, reviewer: User) -> None:
    execution = start(drafting(max_change_requests=1))
    say(only_hold(execution), reviewer)
    second = next_hold(execution)
    assert second.changes_left == 0
    with pytest.raises(ReviewInvalid, match="no more can be") as refused:
        say(second, reviewer)
    assert refused.value.errors[0].path == "decision"
    never = only_hold(start(drafting(max_change_requests=0)))
    with pytest.raises(ReviewInvalid):
        say(never, reviewer)
    never.refresh_from_db()
    assert never.status == "OPEN"


def test_holds_that_take_no_request_refuse_it(start: Start, reviewer: User) -> None:
    before = only_hold(start(echo("a", phase=BEFORE)))
    layer = only_hold(start(echo("a"), policy={"hil": {"enabled": True}}))
    for hold in (before, layer):
        with pytest.raises(ReviewInvalid, match="Only the output of a task"):
            say(hold, reviewer)
    after = only_hold(start(drafting()))
    for more, path in (
        ({"comment": ""}, "comment"),
        ({"comment": " \n"}, "comment"),
        ({"edits": {"text": "mine"}}, "edits"),
    ):
        with pytest.raises(ReviewInvalid) as refused:
            say(after, reviewer, **more)
        assert refused.value.errors[0].path == path
    assert not HumanReviewRecord.objects.exists()


def test_one_member_of_a_quorum_can_request_changes(
    start: Start, reviewer: User, reviewer2: User
) -> None:
    execution = start(drafting(quorum=2))
    hold = only_hold(execution)
    say(hold, reviewer, "APPROVE")
    say(hold, reviewer2)
    second = next_hold(execution)
    assert (second.round, second.approvals) == (2, [])


def test_a_sibling_keeps_its_result_and_its_hold(start: Start, reviewer: User) -> None:
    KEYS.clear()
    execution = start(drafting("a"), drafting("b"))
    first, other = execution.holds.order_by("opened_seq")
    say(first, reviewer)
    advance(execution.pk)
    assert len(KEYS) == 2, "nothing runs while a hold is open"
    say(other, reviewer, "APPROVE")
    again = next_hold(execution)
    assert again.task_id == "a"
    assert KEYS[2:] == [f"{execution.pk}:a:2"]
    say(again, reviewer, "APPROVE")
    assert run_to_rest(execution.pk).status == "COMPLETED"


def test_a_request_can_be_undone(start: Start, reviewer: User) -> None:
    execution = start(drafting())
    hold = only_hold(execution)
    say(hold, reviewer, undo_seconds=600)
    advance(execution.pk)
    assert execution.attempts.filter(settled=True).count() == 1
    withdrawal.withdraw(hold_id=hold.id, user=reviewer, source="test")
    assert not messages_of(execution), "what was taken back was never said"
    say(hold, reviewer, undo_seconds=600, comment="longer")
    end_undo_time(hold)
    assert withdrawal.settle_due() == 1
    assert next_hold(execution).payload["input"] == ["longer"]


def test_concurrent_requests_add_one_attempt(start: Start, reviewer: User, reviewer2: User) -> None:
    for _ in range(10):
        execution = start(drafting())
        hold = only_hold(execution)
        asked = [
            partial(say, hold, who, version=execution.version)
            for who in (reviewer, reviewer2, reviewer, reviewer2)
        ]
        acts = [lambda ask=ask: ask().decision for ask in asked]
        said = at_once(*acts)
        assert said.count("REQUEST_CHANGES") == 1
        assert next_hold(execution).round == 2
        assert execution.attempts.filter(task_id="draft").count() == 2


def test_retries_start_over(start: Start, reviewer: User) -> None:
    """A task that failed once before its output was sent back may fail once more."""
    flaky = {**drafting(), "retry": {"max_attempts": 2, "backoff_seconds": 0}}
    execution = start(flaky)
    say(only_hold(execution), reviewer)
    second = next_hold(execution)
    state = Execution.objects.get(pk=execution.pk).state["tasks"]["draft"]
    assert (state["sent_back_at"], state["attempt"]) == (1, 2)
    say(second, reviewer, "APPROVE")
    assert run_to_rest(execution.pk).status == "COMPLETED"


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    words=st.lists(st.text(STORABLE, min_size=1, max_size=40).filter(str.strip), max_size=4),
    most=st.integers(0, 3),
)
def test_any_feedback_reaches_the_task_unchanged(
    start: Start, reviewer: User, words: list[str], most: int
) -> None:
    execution = start(drafting(max_change_requests=most))
    heard: list[str] = []
    for word in words:
        hold = only_hold(execution)
        assert hold.changes_left == most - len(heard)
        if hold.changes_left == 0:
            with pytest.raises(ReviewInvalid):
                say(hold, reviewer, comment=word)
            break
        say(hold, reviewer, comment=word)
        heard.append(word)
        execution = run_to_rest(execution.pk)
        assert only_hold(execution).payload["context"] == heard


# --- doors --------------------------------------------------------------------------------------


def test_rest_names_the_field_and_accepts_other_formats(start: Start, reviewer: User) -> None:
    execution = start(drafting())
    hold = only_hold(execution)
    api = APIClient()
    api.force_authenticate(reviewer)
    url = reverse("api-reviews-resume")
    body = {"execution_id": execution.pk, "hold_id": hold.id, "version": execution.version}
    bad = api.post(url, {**body, "decision": "REQUEST_CHANGES"}, format="json")
    assert bad.status_code == 422
    assert bad.json()["errors"][0]["path"] == "comment"
    inbox = {**body, "type": "response", "args": "shorter"}
    answer = api.post(url, inbox, format="json")
    assert answer.status_code == 200, answer.json()
    assert answer.json()["decision"] == "REQUEST_CHANGES"
    second = next_hold(execution)
    shown = api.get(reverse("api-reviews-context", args=(execution.pk,))).json()["holds"][0]
    assert (shown["round"], shown["previous"], shown["changes_left"]) == (2, hold.id, 2)
    command = {
        "kind": "approval_response",
        "hold": second.id,
        "approved": False,
        "request_changes": True,
        "feedback": "by command",
    }
    sent = api.post(f"/api/v1/executions/{execution.pk}/commands/", command, format="json")
    assert sent.status_code == 200, sent.json()
    assert next_hold(execution).payload["context"] == ["shorter", "by command"]
    found = api.get(reverse("api-reviews-history"), {"decision": "REQUEST_CHANGES"}).json()
    assert len(found["results"]) == 2


def test_the_page_requests_changes_shows_rounds_and_the_limit(start: Start, reviewer: User) -> None:
    execution = start(drafting(max_change_requests=1))
    hold = only_hold(execution)
    client = browser(reviewer)
    path = reverse("reviews:decision", args=(execution.pk, hold.id))
    page = open_page(reviewer, path)
    assert "REQUEST_CHANGES" in page.answers("decision")
    assert "If you request changes" in page.text
    body = {"version": execution.version, "decision": "REQUEST_CHANGES", "comment": " "}
    assert client.post(path, body).status_code == 422
    done = client.post(path, {**body, "comment": "shorter & <b>"}, follow=True)
    assert "reviewer requested changes to this" in Page(done).text
    second = next_hold(execution)
    page = open_page(reviewer, reverse("reviews:decision", args=(execution.pk, second.id)))
    assert page.texts("blockquote") == ["shorter & <b>"]
    assert path in page.links
    for words in (
        "reviewer requested changes",
        "Changes in the next attempt",
        "Changes were requested once, the limit.",
    ):
        assert words in page.text
    assert "REQUEST_CHANGES" not in page.answers("decision")
    listed = open_page(reviewer, f"{reverse('reviews:history')}?decision=REQUEST_CHANGES")
    assert "reviewer requested changes to draft" in listed.text
    record = history.records(reviewer).get()
    shown = open_page(reviewer, reverse("reviews:record", args=(record.pk,)))
    assert "it was sent back, and the task ran again" in shown.text
    run = open_page(reviewer, reverse("reviews:run", args=(execution.pk,)))
    assert "reviewer requested changes to draft" in run.text
    scope = insights_statistics.Scope(
        reviewer, insights_statistics.Period.of(7, today=record.reviewed_at.date())
    )
    assert (
        insights_statistics.tally(scope).returned,
        insights_statistics.tally(scope).rejected,
    ) == (1, 0)
    assert json.dumps(record.original_data)


def test_a_late_request_is_a_conflict(start: Start, reviewer: User, reviewer2: User) -> None:
    execution = start(drafting())
    hold = only_hold(execution)
    say(hold, reviewer)
    with pytest.raises(Conflict) as late:
        say(hold, reviewer2)
    assert late.value.state["decided"][0]["decision"] == "REQUEST_CHANGES"
