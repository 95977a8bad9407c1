"""Insights: each number equals the linked history and counts only visible runs."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from reviews.decisions import services
from reviews.insights import statistics as insights_statistics
from reviews.insights.statistics import Period, Scope
from reviews.models import ClaimStart
from reviews.queue import claims
from tests.integration.reviews.conftest import MakeUser, Start, echo, only_hold
from tests.support.pages import Page, browser
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = "BEFORE_EXECUTION"


def decide(start: Start, user: User, **answer: Any) -> Hold:
    hold = only_hold(start(echo("a", phase=BEFORE)))
    services.decide(
        services.DecisionRequest(
            hold_id=hold.id,
            user=user,
            version=hold.execution.version,
            source="web",
            **{"decision": "APPROVE", **answer},
        )
    )
    return hold


@pytest.fixture
def reviewed(start: Start, reviewer: User, reviewer2: User) -> None:
    """Two approved, one of them edited; one rejected; one expired; one open."""
    decide(start, reviewer)
    decide(start, reviewer, edits={"value": "other"})
    decide(start, reviewer2, decision="REJECT", comment="no")
    late = only_hold(start(echo("a", phase=BEFORE, timeout_seconds=60, on_timeout="approve")))
    Hold.objects.filter(pk=late.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert services.expire(late.id)
    start(echo("a", phase=BEFORE))


def scope(user: User, days: int = 7) -> Scope:
    return Scope(user, Period.of(days, today=datetime.now(UTC).date()))


def test_outcomes_are_counted_once_each(reviewed: None, auditor: User) -> None:
    tally = insights_statistics.tally(scope(auditor))
    found = (tally.total, tally.approved, tally.edited, tally.rejected, tally.expired)
    assert found == (4, 1, 1, 1, 1)
    assert tally.median is not None
    assert tally.p90 is not None
    assert tally.median <= tally.p90
    people = dict(insights_statistics.tally_by(scope(auditor), "reviewer"))
    assert {name: each.total for name, each in people.items()} == {
        "reviewer": 2,
        "reviewer2": 1,
        "system": 1,
    }
    assert people["system"].median is None
    assert [name for name, _ in insights_statistics.tally_by(scope(auditor), "tool")] == [
        "builtin.echo"
    ]
    assert (
        sum(each.total for each in insights_statistics.tally_by_day(scope(auditor)).values()) == 4
    )


def test_open_holds_are_counted_at_each_days_end(reviewed: None, auditor: User) -> None:
    week = scope(auditor)  # one for all: midnight may pass meanwhile
    assert insights_statistics.open_by_day(week)[-1] == 1
    noon = week.period.end - timedelta(days=3, hours=12)
    Hold.objects.filter(status=Hold.Status.OPEN).update(opened_at=noon)
    assert insights_statistics.open_by_day(week) == [0, 0, 0, 1, 1, 1, 1]
    assert insights_statistics.open_holds(week).count == 1


def test_the_first_claim_is_timed(start: Start, reviewer: User, reviewer2: User) -> None:
    hold = only_hold(start(echo("a", phase=BEFORE)))
    assert insights_statistics.claim_times(scope(reviewer)) == (None, None)
    claims.claim(hold_id=hold.id, user=reviewer)
    claims.assign(hold_id=hold.id, user=reviewer, to="reviewer2")
    (first,) = ClaimStart.objects.all()
    assert insights_statistics.claim_times(scope(reviewer)) == (
        first.after_seconds,
        first.after_seconds,
    )


def test_each_number_leads_to_the_decisions_it_counts(reviewed: None, auditor: User) -> None:
    client = browser(auditor)
    page = client.get("/insights/?days=7")
    (row,) = page.context["tables"][0].rows
    ((name, url),) = row.links
    assert name == "builtin.echo"
    told = {
        part.kind: (part.href, int(re.findall(r": (\d+) of", part.words)[0])) for part in row.parts
    }
    assert set(told) == {"approved", "edited", "rejected", "expired"}
    for href, count in told.values():
        assert client.get(href).context["count_text"] == f"{count} decision"
    assert client.get(url).context["count_text"] == "4 decisions"


def test_insights_count_only_visible_runs(
    reviewed: None, make_user: MakeUser, reviewer: User
) -> None:
    stranger = make_user("stranger", "legal")
    assert insights_statistics.tally(scope(stranger)).total == 0
    page = browser(stranger).get("/insights/")
    assert page.context["is_empty"]
    assert "No reviews in this period" in Page(page).text


@pytest.mark.parametrize("query", ["days=abc", "days=-1", "workflow=%00", "workflow=nobodys"])
def test_unknown_parameters_show_the_default_page(
    reviewed: None, auditor: User, query: str
) -> None:
    page = browser(auditor).get(f"/insights/?{query}")
    assert page.status_code == 200
    assert page.context["days"] == 30
