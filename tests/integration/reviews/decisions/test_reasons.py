"""Stored reasons on pages: translated when they are shown, and old rows as they were stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.urls import reverse

from reviews.components import reasons
from reviews.decisions.masking import Rules
from reviews.decisions.rights import NotAllowed
from reviews.decisions.services import DecisionRequest, decide
from reviews.models import DeniedAttempt
from reviews.runs.timeline import HiddenRules, entry
from tests.integration.reviews.conftest import MakeUser, Start, echo, only_hold
from tests.integration.reviews.pages import review_path
from tests.support.groups import group_of
from tests.support.pages import open_page
from workflows.engine.protocol.events import CommandRefused, dump_event, load_event
from workflows.engine.values.reasons import Reason, reason_fields
from workflows.models import CommandLog, ExecutionEvent, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

HIDDEN = HiddenRules(Rules(None, ()), {})

BEFORE = "BEFORE_EXECUTION"
GERMAN = {
    "task %(task)s asks for review before it runs": "Aufgabe %(task)s braucht eine Prüfung",
    "%(review)s; %(rule)s": "%(review)s, %(rule)s",
    "picked by %(rule)s (hash %(share)s < %(sample)s)": "Stichprobe: %(rule)s (%(share)s)",
    "sampled out by %(rule)s (hash %(share)s ≥ %(sample)s)": "nicht in der Stichprobe: %(rule)s",
    "the task's own rule": "eigene Regel der Aufgabe",
    "%(task)s was rejected": "%(task)s abgelehnt",
    "You started this run, so somebody else has to approve it.": "Eigener Lauf.",
    "Layer %(layer)s has begun or does not exist.": "Ebene %(layer)s hat begonnen.",
}


@pytest.fixture
def in_german(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasons, "gettext", lambda text: GERMAN.get(text, text))


def decision_page(user: User, hold: Hold) -> str:
    return open_page(user, review_path(hold)).text


def sampled(sample: float) -> dict[str, Any]:
    task = echo("a", {"path": "x"}, phase=BEFORE)
    return {**task, "human_review": {**task["human_review"], "sample": sample}}


def test_a_hold_stores_code_and_parameters_and_its_page_translates_them(
    start: Start, reviewer: User, in_german: None
) -> None:
    hold = only_hold(start(sampled(1)))
    assert hold.why.startswith("task a asks for review before it runs; picked by the task's own")
    assert hold.why_code == "review_with_rule"
    assert hold.why_params["review"] == {"code": "review_before", "params": {"task": "a"}}
    assert hold.why_params["rule"]["code"] == "rule_sampled_in"
    event = ExecutionEvent.objects.get(kind="hold_opened").payload
    assert (event["summary_code"], event["summary_params"]) == (hold.why_code, hold.why_params)
    page = decision_page(reviewer, hold)
    assert "Aufgabe a braucht eine Prüfung, Stichprobe: eigene Regel der Aufgabe" in page


def test_a_hold_without_a_code_shows_its_stored_sentence(
    start: Start, reviewer: User, in_german: None
) -> None:
    hold = only_hold(start(echo("a", {"path": "x"}, phase=BEFORE)))
    Hold.objects.filter(pk=hold.pk).update(why="an old sentence", why_code="", why_params={})
    assert "An old sentence" in decision_page(reviewer, hold)


def test_a_skipped_review_stores_code_and_parameters(
    start: Start, operator: User, in_german: None
) -> None:
    run = start(sampled(0), echo("b", 1))
    event = ExecutionEvent.objects.get(execution=run, kind="review_spared")
    assert event.payload["why"].startswith("sampled out by the task's own rule")
    assert event.payload["why_code"] == "rule_sampled_out"
    assert event.payload["why_params"]["rule"] == {"code": "rule_of_task", "params": {}}
    page = open_page(operator, f"/runs/{run.pk}/")
    assert "nicht in der Stichprobe: eigene Regel der Aufgabe" in page.text


def test_a_denied_attempt_stores_code_and_parameters_and_its_page_translates_them(
    start: Start, operator: User, make_user: MakeUser, in_german: None
) -> None:
    hold = only_hold(start(echo("a", 1, phase=BEFORE)))
    operator.groups.add(group_of("reviewer"))
    with pytest.raises(NotAllowed, match="You started this run"):
        decide(
            DecisionRequest(
                hold_id=hold.pk,
                user=operator,
                decision="APPROVE",
                version=hold.execution.version,
                source="rest",
            )
        )
    attempt = DeniedAttempt.objects.get()
    assert attempt.reason == "You started this run, so somebody else has to approve it."
    assert (attempt.code, attempt.reason_code) == ("four_eyes", "shaped_by_start")
    logged = CommandLog.objects.get()
    assert (logged.detail, logged.detail_code) == (attempt.reason, "shaped_by_start")
    assert "Eigener Lauf." in open_page(make_user("auditor", "auditor"), "/history/denied/").text
    admin = make_user("admin", "admin", is_staff=True, is_superuser=True)
    run = reverse("admin:workflows_execution_change", args=(hold.execution_id,))
    assert "Eigener Lauf." in open_page(admin, run).text
    CommandLog.objects.bulk_create(
        [CommandLog(execution=hold.execution, kind="abort", outcome="refused", detail="old text")]
    )
    assert "old text" in open_page(admin, run).text


def test_a_refused_command_stores_code_and_parameters_and_the_timeline_translates_them(
    start: Start, operator: User, in_german: None
) -> None:
    run = start(echo("a", 1, phase=BEFORE))
    reason = Reason("layer_has_begun", {"layer": 0})
    refused = CommandRefused(command="skip_layer", **reason_fields("error", reason))
    stored = dump_event(refused)
    assert stored["error"] == "Layer 0 has begun or does not exist."
    assert load_event("command_refused", stored) == refused
    assert load_event("command_refused", {"command": "abort", "error": "old"}).error == "old"
    event = ExecutionEvent(execution=run, seq=1, kind="command_refused", payload=stored)
    assert entry(event, HIDDEN)["sentence"].endswith("was refused: Ebene 0 hat begonnen.")
    old = ExecutionEvent(kind="command_refused", payload={"command": "abort", "error": "old"})
    assert entry(old, HIDDEN)["sentence"].endswith("was refused: old")


def test_a_refused_permission_and_an_ended_run_store_code_and_parameters(
    start: Start, reviewer: User, in_german: None
) -> None:
    hold = only_hold(start(echo("a", 1, phase=BEFORE)))
    request = DecisionRequest(
        hold_id=hold.pk,
        user=reviewer,
        decision="REJECT",
        version=hold.execution.version,
        source="rest",
    )
    decide(request)
    run = hold.execution
    run.refresh_from_db()
    assert (run.status, run.error, run.error_code) == ("ABORTED", "a was rejected", "task_rejected")
    assert run.error_params == {"task": "a"}
    aborted = ExecutionEvent.objects.get(execution=run, kind="execution_aborted")
    assert entry(aborted, HIDDEN)["sentence"].endswith("a abgelehnt")
    assert "a abgelehnt" in open_page(reviewer, f"/runs/{run.pk}/").text
