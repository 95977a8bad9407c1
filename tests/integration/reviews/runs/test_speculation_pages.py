"""Speculation on pages: dashed tasks, hits and misses, and restart after a stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import django_rq
import pytest

from tests.integration.reviews.conftest import Start, echo, only_hold
from tests.support.actors import actor_named
from tests.support.pages import Page, browser, open_page
from workflows.engine.protocol.commands import ApprovalResponse
from workflows.executions.jobs import run_to_rest, speculate
from workflows.executions.selectors import (
    SpeculativeResult,
    speculation_counts,
    speculation_totals,
    speculative_results_behind,
)
from workflows.executions.services import submit_command
from workflows.models import Execution, Speculation

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

AHEAD = {"speculation": {"enabled": True}}


@pytest.fixture
def paused(start: Start) -> Execution:
    """A hold with two fields, and a reader behind each."""
    fields = {"left": 1, "right": 2}
    execution = start(
        echo("held", fields, phase="AFTER_EXECUTION"),
        echo("left", {"$from": "held", "select": "left"}),
        echo("right", {"$from": "held", "select": "right"}),
        echo("aside"),
        policy=AHEAD,
    )
    return work_ahead(execution)


def work_ahead(execution: Execution) -> Execution:
    django_rq.get_queue("default").empty()
    speculate(execution.pk)
    return execution


def decide(execution: Execution, **answer: Any) -> Execution:
    command = ApprovalResponse(hold=only_hold(execution).pk, approved=True, **answer)
    submit_command(
        execution_id=execution.pk, command=command, actor=actor_named("ann"), source="test"
    )
    return run_to_rest(execution.pk)


def run_page(user: User, execution: Execution) -> Page:
    return open_page(user, f"/runs/{execution.pk}/")


def test_the_run_page_draws_speculative_tasks_dashed(paused: Execution, operator: User) -> None:
    page = run_page(operator, paused)
    assert len(page.texts(".dag .speculated")) == 2
    assert "2 later tasks are already computed" in page.text
    # A computed result is no output yet: only the held task and the one beside it have one.
    outputs = [each for each in page.names("region") if each.startswith("Output of")]
    assert outputs == ["Output of held", "Output of aside"]


def test_the_decision_page_mentions_speculation_in_one_line(
    paused: Execution, reviewer: User
) -> None:
    hold = only_hold(paused)
    page = open_page(reviewer, f"/review/{paused.pk}/{hold.pk}/")
    line = "2 later tasks are already computed; their results are used if you approve unchanged."
    assert page.texts("[data-ahead-words]") == [line]
    assert speculative_results_behind(hold) == (
        SpeculativeResult("left", "READY"),
        SpeculativeResult("right", "READY"),
    )


def test_the_run_page_shows_hits_and_misses(paused: Execution, operator: User) -> None:
    execution = decide(paused, edits={"left": 1, "right": 20})
    assert execution.status == "COMPLETED"
    Speculation.objects.filter(task_id="left").update(duration_ms=1500)
    Speculation.objects.filter(task_id="right").update(wasted_ms=700)
    page = run_page(operator, execution)
    assert "1 of 2 results precomputed was used." in page.text
    facts = ["1 used", "1 discarded", "1.5 s saved", "0.7 s wasted"]
    assert page.texts(".run-ahead .facts span") == facts
    assert page.texts(".dag .speculated") == []
    for sentence in (
        "left was precomputed while the review was open",
        "was discarded: its inputs or permissions changed",
    ):
        assert sentence in page.text
    assert "already computed" not in page.text


def test_totals_cover_every_run(start: Start, paused: Execution) -> None:
    other = work_ahead(
        start(echo("held", 1, phase="AFTER_EXECUTION"), echo("b", {"$from": "held"}), policy=AHEAD)
    )
    decide(paused, edits={"left": 1, "right": 20})
    decide(other)
    assert (speculation_counts(other).hits, speculation_counts(other).misses) == (1, 0)
    totals = speculation_totals()
    assert (totals.hits, totals.misses) == (2, 1)
    assert totals.saved_seconds >= 0
    assert totals.wasted_seconds >= 0


def test_a_run_without_speculation_shows_nothing(start: Start, operator: User) -> None:
    execution = start(echo("held", phase="AFTER_EXECUTION"), echo("b", {"$from": "held"}))
    assert "Precomputed results" not in run_page(operator, execution).names("heading")


@pytest.fixture
def unexplored(settings: Any) -> None:
    """No hold explores a pair or workflow whose speculation has stopped."""
    settings.HOLDPOINT = {**settings.HOLDPOINT, "speculation_explore": 0}


def missed(start: Start) -> None:
    """Another decision whose results are discarded."""
    held = echo("held", {"left": 1, "right": 2}, phase="AFTER_EXECUTION")
    readers = [echo(f"r{n}", {"$from": "held", "select": "left"}) for n in range(6)]
    decide(work_ahead(start(held, *readers, policy=AHEAD)), edits={"left": 10, "right": 2})


@pytest.mark.usefixtures("unexplored")
def test_speculation_stops_itself_and_can_be_resumed(
    start: Start, paused: Execution, operator: User, reviewer: User, settings: Any
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "speculation_window": 2}
    missed(start)
    decide(paused, edits={"left": 10, "right": 20})
    again = start(
        echo("held", 1, phase="AFTER_EXECUTION"), echo("b", {"$from": "held"}), policy=AHEAD
    )
    work_ahead(again)
    assert not again.speculations.exists()
    page, path = run_page(operator, again), f"/runs/{again.pk}/ahead/"
    assert "Stopped: only 0 of the last 2 decisions used precomputed results." in page.text
    assert path in page.actions
    assert path not in run_page(reviewer, again).actions
    assert browser(reviewer).post(path).status_code == 403
    assert browser(operator).post(path).status_code == 303
    assert "Stopped" not in run_page(operator, again).text
    work_ahead(again)
    assert again.speculations.get().state == "READY"
    # What was forgotten is still counted.
    assert speculation_totals().misses == 8


@pytest.mark.usefixtures("unexplored")
def test_many_results_of_one_decision_do_not_stop_speculation(start: Start, settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "speculation_window": 2}
    missed(start)
    assert speculation_totals().misses == 6
    again = work_ahead(
        start(echo("held", 1, phase="AFTER_EXECUTION"), echo("b", {"$from": "held"}), policy=AHEAD)
    )
    assert again.speculations.get().state == "READY"


def test_a_hold_that_explores_computes_one_result_while_speculation_is_stopped(
    start: Start, paused: Execution, settings: Any
) -> None:
    settings.HOLDPOINT = {
        **settings.HOLDPOINT,
        "speculation_window": 2,
        "speculation_explore": 0,
    }
    missed(start)
    decide(paused, edits={"left": 10, "right": 20})
    held = echo("held", 1, phase="AFTER_EXECUTION")
    readers = [echo(f"r{n}", {"$from": "held"}) for n in range(3)]
    again = work_ahead(start(held, *readers, policy=AHEAD))
    assert not again.speculations.exists()
    settings.HOLDPOINT = {**settings.HOLDPOINT, "speculation_explore": 1}
    work_ahead(again)
    work_ahead(again)
    assert again.speculations.get().state == "READY"
    assert again.speculations.get().hold == only_hold(again).pk
    decide(again)
    decide(work_ahead(start(held, *readers, policy=AHEAD)))
    # Two hits in the window: speculation has resumed, so everything is computed.
    last = work_ahead(start(held, *readers, policy=AHEAD))
    assert last.speculations.count() == 3


def test_speculation_resumes_when_the_misses_are_old(
    start: Start, paused: Execution, settings: Any
) -> None:
    settings.HOLDPOINT = {
        **settings.HOLDPOINT,
        "speculation_window": 2,
        "speculation_memory_seconds": 0,
    }
    decide(paused, edits={"left": 10, "right": 20})
    again = work_ahead(
        start(echo("held", 1, phase="AFTER_EXECUTION"), echo("b", {"$from": "held"}), policy=AHEAD)
    )
    assert again.speculations.get().state == "READY"


@pytest.mark.usefixtures("unexplored")
def test_a_pair_that_keeps_missing_is_left_alone(start: Start, paused: Execution) -> None:
    decide(paused, edits={"left": 10, "right": 20})
    missed(start)
    missed(start)
    policy = {"speculation": {"enabled": True, "confidence": "learned"}}
    again = work_ahead(
        start(echo("held", 1, phase="AFTER_EXECUTION"), echo("b", {"$from": "held"}), policy=policy)
    )
    assert not again.speculations.exists()
