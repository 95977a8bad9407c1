"""Deadlines in business hours: chosen by a policy, counted by the journal, shown on the page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from reviews.queue.extensions import extend
from tests.integration.reviews.conftest import MakeUser, Start, echo, only_hold
from tests.integration.reviews.conftest import make_user as make_user
from tests.integration.reviews.conftest import operator as operator
from tests.integration.reviews.conftest import reviewer as reviewer
from tests.integration.reviews.conftest import start as start
from tests.support.pages import browser, open_page
from workflows.approvals.services import ask
from workflows.calendars.business_time import due
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import start_execution
from workflows.executions.validation import InvalidRequest
from workflows.models import ApprovalPolicy, BusinessCalendar, Execution, Hold, Workflow
from workflows.permissions.roles import ensure_roles

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db

Make = Callable[..., BusinessCalendar]


@pytest.fixture
def calendar() -> Make:
    """A calendar that opens ten hours from now, for one hour a day."""

    def make(name: str = "Office", **fields: Any) -> BusinessCalendar:
        hour = (timezone.now() + timedelta(hours=10)).hour
        ends = "24:00" if hour == 23 else f"{hour + 1:02}:00"
        row = BusinessCalendar(name=name, week=[[[f"{hour:02}:00", ends]]] * 7, **fields)
        row.full_clean()
        row.save()
        return row

    return make


def review(**fields: Any) -> dict[str, Any]:
    return echo("a", phase="BEFORE_EXECUTION", **fields)


TIMED: dict[str, Any] = {
    "timeout_seconds": 3600,
    "on_timeout": "reject",
    "reminders": [{"after_seconds": 600}],
    "escalation": [{"after_seconds": 1800, "groups": ["admin"]}],
}


def lasts(hold: Hold, seconds: float) -> bool:
    """Whether the deadline counts around the clock."""
    assert hold.expires_at is not None
    end = hold.opened_at + timedelta(seconds=seconds)
    return abs(hold.expires_at - end) < timedelta(seconds=5)


def assert_in_business_time(hold: Hold, row: BusinessCalendar) -> None:
    hours = row.hours()
    pairs = (
        (hold.expires_at, 3600),
        (hold.reminds_at, 600),
        (hold.escalates_at, 1800),
    )
    for moment, seconds in pairs:
        assert moment is not None
        assert abs(moment - due(hours, hold.opened_at, seconds)) < timedelta(seconds=5)
        assert moment - hold.opened_at > timedelta(hours=8)


def test_the_default_calendar_counts_every_deadline_of_people(
    calendar: Make, start: Start, reviewer: User
) -> None:
    hold = only_hold(start(review(**TIMED)))
    assert lasts(hold, 3600)
    row = calendar(is_default=True)
    hold = only_hold(start(review(**TIMED)))
    assert_in_business_time(hold, row)
    page = open_page(reviewer, f"/review/{hold.execution_id}/{hold.pk}/")
    assert "The time counts in the business hours of “Office”." in page.text
    # The journal has the seconds of the policy, and a run keeps its calendar.
    opened = hold.execution.events.get(kind="hold_opened")
    assert opened.payload["timeout_seconds"] == 3600
    row.delete()
    assert Execution.objects.get(pk=hold.execution_id).policy["business_hours"]["name"] == "Office"


def test_an_extension_adds_hours_of_the_clock(calendar: Make, start: Start, reviewer: User) -> None:
    calendar(is_default=True)
    hold = only_hold(start(review(**TIMED)))
    before = hold.expires_at
    assert before is not None
    after = extend(hold_id=hold.pk, user=reviewer, seconds=3600, source="rest").expires_at
    assert after == before + timedelta(hours=1)


def test_agents_have_no_business_hours(calendar: Make, start: Start) -> None:
    calendar(is_default=True)
    policy = {"per_layer_validation": True, "validation_timeout_seconds": 60}
    hold = only_hold(start(echo("a"), echo("b", {"$from": "a"}), policy=policy))
    assert hold.decider == "agent"
    assert lasts(hold, 60)


def test_a_workflow_chooses_its_calendar(calendar: Make, start: Start, operator: User) -> None:
    calendar("Other", is_default=True)
    chosen = calendar("Chosen")
    plan = {"tasks": [review(**TIMED)]}
    for name, calendar_name in (("w", "Chosen"), ("around-the-clock", "")):
        Workflow.objects.create(
            name=name, title=name, plan=plan, policy={"calendar": calendar_name}
        )

    def held(name: str, **more: Any) -> Hold:
        workflow = Workflow.objects.get(name=name)
        execution = start_execution(actor=operator, workflow=workflow, **more)
        return only_hold(run_to_rest(execution.pk))

    hold = held("w")
    assert_in_business_time(hold, chosen)
    assert hold.execution.policy["business_hours"]["name"] == "Chosen"
    plain = held("around-the-clock")
    assert lasts(plain, 3600)


def test_a_run_does_not_choose_another_calendar_than_its_workflow(
    calendar: Make, start: Start, reviewer: User
) -> None:
    calendar()
    workflow = Workflow.objects.create(name="w", title="W", plan={"tasks": [review(**TIMED)]})
    for policy, path, code in (
        ({"calendar": "Office"}, "policy.calendar", "policy_loosened"),
        ({"calendar": "Nowhere"}, "policy.calendar", "unknown_calendar"),
        ({"business_hours": None}, "policy.business_hours", "calendar_only"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            start_execution(actor=reviewer, workflow=workflow, policy=policy)
        assert [(each.path, each.code) for each in refused.value.problems] == [(path, code)]


def test_a_policy_of_approvals_chooses_its_calendar(calendar: Make, make_user: MakeUser) -> None:
    row = calendar()
    ApprovalPolicy.objects.create(
        pattern="pay", groups=["reviewer"], timeout_seconds=3600, calendar=row
    )
    fields = {"action": {"name": "pay", "arguments": {}}, "phase": "BEFORE_EXECUTION"}
    hold = only_hold(ask(actor=make_user("bot", "integrator"), fields=fields).execution)
    assert hold.expires_at is not None
    assert abs(hold.expires_at - due(row.hours(), hold.opened_at, 3600)) < timedelta(seconds=5)


def test_admins_write_calendars_and_see_deadlines(make_user: MakeUser) -> None:
    ensure_roles()
    client = browser(make_user("ada", "admin", is_staff=True))
    days = dict.fromkeys(("monday", "tuesday", "wednesday", "thursday"), "09:00-12:00, 13:00-17:00")
    fields = {
        **days,
        "friday": "09:00-17:00",
        "name": "Berlin",
        "time_zone": "Europe/Berlin",
        "country": "DE",
        "subdivision": "BE",
        "exceptions": "2026-12-24\n2030-12-07 09:00-13:00",
        "is_default": "on",
    }
    url = "/admin/workflows/businesscalendar/add/"
    for wrong, words in (
        ({"friday": "9-17"}, "Write hours as 09:00-17:00"),
        ({"friday": "17:00-09:00"}, "must be in order"),
        ({"subdivision": "ZZ"}, "no such subdivision"),
        ({"exceptions": "tomorrow"}, "Begin a line with a date"),
        ({**dict.fromkeys(days, ""), "friday": ""}, "at least one weekday must have hours"),
    ):
        response = client.post(url, {**fields, **wrong})
        shown = response.content.decode()
        assert (response.status_code, words in shown) == (200, True), (wrong, shown[-6000:])
    assert not BusinessCalendar.objects.exists()
    assert client.post(url, fields).status_code == 302
    row = BusinessCalendar.objects.get()
    assert row.week[0] == [["09:00", "12:00"], ["13:00", "17:00"]]
    assert row.exceptions == {"2026-12-24": [], "2030-12-07": [["09:00", "13:00"]]}
    page = client.get(f"/admin/workflows/businesscalendar/{row.pk}/change/").content.decode()
    assert "A deadline of 4 h that begins on Friday" in page
    assert "09:00-12:00, 13:00-17:00" in page
    assert "2030-12-07 09:00-13:00" in page
    second = {**fields, "name": "Second"}
    assert client.post(url, second).status_code == 200
    assert BusinessCalendar.objects.count() == 1


def test_a_calendar_is_checked() -> None:
    with pytest.raises(ValidationError) as invalid:
        BusinessCalendar(name="x", week=[[]] * 7, time_zone="Mars/Phobos").full_clean()
    assert "time_zone" in invalid.value.message_dict
