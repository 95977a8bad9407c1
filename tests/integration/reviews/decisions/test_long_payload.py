"""A payload too long for one page: read part by part, and approved once all of it was shown."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

import pytest

from reviews.decisions.pages import MAX_SHOWN_CHARACTERS, pretty
from reviews.models import HumanReviewRecord
from tests.integration.reviews.conftest import Start, echo, only_hold
from tests.integration.reviews.decisions.test_pages import browser, form_of, page_of, post
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

RAW = re.compile(r'<textarea [^>]*id="edits-json"[^>]*>\n(.*?)</textarea>', re.DOTALL)
OFF = "You cannot approve yet: part of the payload is not shown."


def shown(page: str) -> str:
    """The text of the payload on a page."""
    found = RAW.search(page)
    assert found
    return html.unescape(found[1])


@pytest.fixture
def hold(start: Start) -> Hold:
    twice = {"$from": "inputs", "select": "[big, big]"}
    return only_hold(
        start(echo("long", twice, phase="AFTER_EXECUTION"), inputs={"big": "tell " * 45_000})
    )


def test_the_last_part_enables_approval(hold: Hold, reviewer: User) -> None:
    client = browser(reviewer)
    first = client.get(page_of(hold)).content.decode()
    assert OFF in first
    assert "Show the next 50,014 characters" in first
    assert "It has 450,014 characters; the first 400,000 are shown here." in first
    fields = form_of(first)
    assert fields["read"] == str(MAX_SHOWN_CHARACTERS)
    assert shown(first) == pretty(hold.payload)[:MAX_SHOWN_CHARACTERS]
    whole = client.post(page_of(hold), {**fields, "comment": "so far so good", "more": "yes"})
    text = whole.content.decode()
    assert whole.status_code == 200
    assert OFF not in text
    assert "so far so good" in text
    assert shown(text) == pretty(hold.payload)
    assert "What you had written" not in text
    assert not HumanReviewRecord.objects.exists()
    answer = client.post(page_of(hold), {**form_of(text), "decision": "APPROVE"})
    assert answer.status_code == 303
    record = HumanReviewRecord.objects.get()
    assert (record.decision, record.is_edited) == ("APPROVE", False)


@pytest.mark.parametrize("read", ["x", str(MAX_SHOWN_CHARACTERS + 1), "9" * 30])
def test_a_partly_shown_payload_is_not_approved(hold: Hold, reviewer: User, read: str) -> None:
    answer = post(browser(reviewer), hold, read=read, decision="APPROVE")
    assert answer.status_code == 422
    assert "Not all of it was shown" in answer.content.decode()
    assert not HumanReviewRecord.objects.exists()


def test_viewers_read_every_part(hold: Hold, auditor: User) -> None:
    client = browser(auditor)
    first = client.get(page_of(hold)).content.decode()
    text = client.post(page_of(hold), {**form_of(first), "more": "yes"}).content.decode()
    assert shown(text) == pretty(hold.payload)
    assert "What you had written" not in text
