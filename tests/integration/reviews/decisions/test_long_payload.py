"""A payload too long for one page: read part by part, and approved once all of it was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reviews.decisions.pages import MAX_SHOWN_CHARACTERS, pretty
from reviews.models import HumanReviewRecord
from tests.integration.reviews.conftest import Start, echo, only_hold
from tests.integration.reviews.pages import decision_fields, post_decision, review_path
from tests.support.pages import Page, browser, open_page
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)


def shown(page: Page) -> str:
    """The text of the payload on a page."""
    return page.value("#edits-json")


@pytest.fixture
def hold(start: Start) -> Hold:
    twice = {"$from": "inputs", "select": "[big, big]"}
    return only_hold(
        start(echo("long", twice, phase="AFTER_EXECUTION"), inputs={"big": "tell " * 45_000})
    )


def test_the_last_part_enables_approval(hold: Hold, reviewer: User) -> None:
    client = browser(reviewer)
    first = open_page(reviewer, review_path(hold))
    assert first.answers("decision") == {"REJECT", "REQUEST_CHANGES"}
    assert "Show the next 50,014 characters" in first.names("button")
    assert "It has 450,014 characters; the first 400,000 are shown here." in first.text
    fields = decision_fields(first)
    assert fields["read"] == str(MAX_SHOWN_CHARACTERS)
    assert shown(first) == pretty(hold.payload)[:MAX_SHOWN_CHARACTERS]
    whole = client.post(review_path(hold), {**fields, "comment": "so far so good", "more": "yes"})
    page = Page(whole)
    assert whole.status_code == 200
    assert "APPROVE" in page.answers("decision")
    assert decision_fields(page)["comment"] == "so far so good"
    assert shown(page) == pretty(hold.payload)
    assert "What you had written" not in page.names("heading")
    assert not HumanReviewRecord.objects.exists()
    answer = client.post(review_path(hold), {**decision_fields(page), "decision": "APPROVE"})
    assert answer.status_code == 303
    record = HumanReviewRecord.objects.get()
    assert (record.decision, record.is_edited) == ("APPROVE", False)


@pytest.mark.parametrize("read", ["x", str(MAX_SHOWN_CHARACTERS + 1), "9" * 30])
def test_a_partly_shown_payload_is_not_approved(hold: Hold, reviewer: User, read: str) -> None:
    answer = post_decision(browser(reviewer), hold, read=read, decision="APPROVE")
    assert answer.status_code == 422
    assert [each.message for each in answer.context["d"]["errors"]] == [
        "Not all of it was shown, so it cannot be approved here."
    ]
    assert not HumanReviewRecord.objects.exists()


def test_viewers_read_every_part(hold: Hold, auditor: User) -> None:
    client = browser(auditor)
    first = open_page(auditor, review_path(hold))
    page = Page(client.post(review_path(hold), {**decision_fields(first), "more": "yes"}))
    assert shown(page) == pretty(hold.payload)
    assert "What you had written" not in page.names("heading")
