"""Edit impact on the decision page: named while one types, and in the step that confirms."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import django_rq
import pytest

from tests.integration.reviews.conftest import Start, echo, only_hold
from tests.support.pages import Page, browser
from workflows.executions.jobs import speculate
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)
VALUE = {"title": "Notes", "body": "long", "tags": ["a", "b"]}


@pytest.fixture
def run(start: Start) -> Hold:
    """`draft` is held; `head` reads its title, `all` everything, `later` what `head` gave."""
    return only_hold(
        start(
            echo("draft", VALUE, phase="AFTER_EXECUTION"),
            echo("head", {"$from": "draft", "select": "title"}),
            echo("all", {"$from": "draft"}),
            echo("later", {"$from": "head"}),
            policy={"speculation": {"enabled": True}},
        )
    )


def ask(user: User, hold: Hold, *paths: str) -> dict[str, Any]:
    client = browser(user)
    answer = client.get(f"/review/{hold.execution_id}/{hold.id}/impact/", {"path": paths})
    assert (answer.status_code, answer["Content-Type"]) == (200, "application/json")
    told: dict[str, Any] = answer.json()
    return told


def labels(told: dict[str, Any]) -> dict[str, str]:
    return {field["path"]: field["words"] for field in told["fields"]}


def test_each_field_names_the_tasks_that_read_it(run: Hold, reviewer: User) -> None:
    told = ask(reviewer, run, "/title", "/body", "/tags/0", "/title")
    assert labels(told) == {
        "/title": "used by head, all",
        "/body": "used by all",
        "/tags/0": "used by all",
    }
    assert [field["dotted"] for field in told["fields"]] == ["title", "body", "tags[0]"]
    assert ask(reviewer, run) == {"fields": [], "ahead": ""}
    for odd in ("", "x", "/~", "/tags/99999999999999999999", "/" + "a/" * 500):
        assert len(ask(reviewer, run, odd)["fields"]) == 1


def test_before_execution_the_task_itself_is_the_reader(start: Start, reviewer: User) -> None:
    hold = only_hold(start(echo("draft", VALUE, phase="BEFORE_EXECUTION")))
    assert labels(ask(reviewer, hold, "/value/title")) == {"/value/title": "used by draft"}
    later = [echo(f"t{number}", {"$from": "draft"}) for number in range(6)]
    more = only_hold(start(echo("draft", VALUE, phase="BEFORE_EXECUTION"), *later))
    told = "used by draft; its output is used by t0, t1, t2, t3 and 2 more"
    assert labels(ask(reviewer, more, "/value/title")) == {"/value/title": told}


def test_speculative_results_are_dropped_by_what_they_read(run: Hold, reviewer: User) -> None:
    django_rq.get_queue("default").empty()
    speculate(run.execution_id)
    one = ask(reviewer, run, "/body")["ahead"]
    assert one == "1 precomputed result discarded. 2 kept."
    assert ask(reviewer, run, "/title")["ahead"] == "3 precomputed results discarded."


def test_the_confirmation_step_shows_the_impact_without_scripts(run: Hold, reviewer: User) -> None:
    client = browser(reviewer)
    answer = client.post(
        f"/review/{run.execution_id}/{run.id}/",
        {
            "decision": "APPROVE",
            "version": str(run.execution.version),
            "mode": "json",
            "edits_json": json.dumps({**VALUE, "title": "Other"}),
        },
    )
    assert answer.status_code == 200
    assert "used by head, all" in Page(answer).text
    assert answer.context["d"]["confirm"] is True


def test_users_who_cannot_see_the_run_get_404(run: Hold, make_user: Any) -> None:
    client = browser(make_user("stranger", "legal"))
    assert client.get(f"/review/{run.execution_id}/{run.id}/impact/").status_code == 404
