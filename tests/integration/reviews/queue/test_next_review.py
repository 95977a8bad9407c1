"""The answer to a decision in the queue: the next review, and what changed in the list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.reviews.conftest import MakeUser, Start, echo
from tests.support.pages import HTMX, Page, browser
from workflows.models import Execution, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def waiting(start: Start) -> list[Execution]:
    """Three runs that wait for reviewers, oldest first."""
    return [start(echo("publish", phase="BEFORE_EXECUTION")) for _ in range(3)]


def approve(user: User, run: Execution, **more: str) -> Any:
    """Approve the run's review as the form in the queue does."""
    client = browser(user)
    url = f"/review/{run.pk}/{run.pk}-1/"
    form = Page(client.get(url)).fields("[data-decision-form]")
    return client.post(url, {**form, "decision": "APPROVE", **more}, headers=HTMX)


def hold_of(run: Execution) -> Hold:
    return Hold.objects.get(execution=run)


def test_it_has_the_next_review_the_verdict_and_the_counts(
    waiting: list[Execution], reviewer: User
) -> None:
    first, second, _ = waiting
    answer = approve(reviewer, first, queue_next=f"{second.pk}-1")
    assert answer.status_code == 200
    assert answer.headers["HX-Reselect"] == "#decision"
    page = Page(answer)
    assert page.attributes("#decision", "data-hold") == [f"{second.pk}-1"]
    assert page.attributes("[data-decided]", "data-hold") == [f"{first.pk}-1"]
    assert page.attributes("[data-decided]", "data-sentence") == ["reviewer approved this"]
    first.refresh_from_db()
    assert page.attributes("[data-decided]", "data-version") == [str(first.version)]
    assert page.attributes("#queue-tabs", "data-waiting") == ["2"]
    assert page.attributes("#queue-list [data-hold]", "data-hold") == []
    assert hold_of(first).status == Hold.Status.APPROVED


def test_it_has_the_rows_of_the_run_that_the_page_shows(start: Start, reviewer: User) -> None:
    run = start(*(echo(name, phase="BEFORE_EXECUTION") for name in "ab"))
    page = Page(approve(reviewer, run, queue_next=f"{run.pk}-2", queue_query="q=publish"))
    assert page.attributes("#queue-list [data-hold]", "data-hold") == []
    page = Page(
        browser(reviewer).get(
            f"/review/?changed={run.pk}", headers={**HTMX, "HX-Target": "queue-list"}
        )
    )
    assert page.attributes("[data-hold]", "data-hold") == [f"{run.pk}-2"]


@pytest.mark.parametrize("wrong", ["hidden", "decided", "unknown", "cursor"])
def test_what_cannot_be_answered_at_once_shows_the_decided_review(
    waiting: list[Execution], reviewer: User, make_user: MakeUser, start: Start, wrong: str
) -> None:
    first, second, third = waiting
    more = {"queue_next": f"{second.pk}-1"}
    if wrong == "decided":
        assert approve(reviewer, second).status_code == 200
    elif wrong == "hidden":
        review = {"groups": ["other"]}
        make_user("else", "other")
        hidden = start(
            echo("secret", phase="BEFORE_EXECUTION", **review), actor=make_user("boss", "operator")
        )
        more = {"queue_next": f"{hidden.pk}-1"}
    elif wrong == "unknown":
        more = {"queue_next": "nobody\0"}
    else:
        more |= {"queue_until": "broken"}
    answer = approve(reviewer, first, **more)
    assert answer.status_code == 200
    assert answer.headers["X-Holdpoint-Decided"] == f"{first.pk}-1"
    assert "HX-Reselect" not in answer.headers
    assert Page(answer).attributes("#decision", "data-hold") == [f"{first.pk}-1"]
    assert "secret" not in answer.content.decode()
    assert hold_of(first).status == Hold.Status.APPROVED
    assert hold_of(third).status == Hold.Status.OPEN


def test_a_refused_decision_opens_no_other_review(
    waiting: list[Execution], reviewer: User, reviewer2: User
) -> None:
    first, second, _ = waiting
    client, url = browser(reviewer), f"/review/{first.pk}/{first.pk}-1/"
    form = Page(client.get(url)).fields("[data-decision-form]")
    assert approve(reviewer2, first).status_code == 200
    sent = {**form, "decision": "APPROVE", "queue_next": f"{second.pk}-1"}
    answer = client.post(url, sent, headers=HTMX)
    assert answer.status_code == 409
    assert "HX-Reselect" not in answer.headers
    assert Page(answer).attributes("#decision", "data-hold") == [f"{first.pk}-1"]
