"""Approvals on the desk: what a reviewer reads, and decides on the page."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from reviews.insights import statistics as insights_statistics
from reviews.insights.statistics import Period, Scope
from reviews.models import HumanReviewRecord
from tests.integration.workflows.approvals.conftest import PAY, Agent, decided, hold_of, row_of
from workflows.executions.jobs import run_to_rest

pytestmark = pytest.mark.django_db
CONTEXT = """Invoice **4711** is due.

![tracker](https://evil.example/pixel.png)
<script>alert(1)</script>
<img src=x onerror=alert(2)>
[click](javascript:alert(3)) [page](https://example.com/invoice)
"""


@pytest.fixture
def desk(reviewer: User) -> Client:
    client = Client()
    client.force_login(reviewer)
    return client


def page_of(desk: Client, body: dict[str, str]) -> str:
    hold = hold_of(body)
    response = desk.get(reverse("reviews:decision", args=(hold.execution_id, hold.pk)))
    assert response.status_code == 200
    return response.content.decode()


def test_the_page_says_what_is_asked_and_by_whom(agent: Agent, desk: Client) -> None:
    body = agent.asked(
        action={"title": "Pay invoice 4711", "description": "Sends money."},
        requested_by={"agent": "billing-bot", "session": "s-1", "url": "https://bot.example/1"},
        context=CONTEXT,
        editable=["/amount"],
        instructions="Check the IBAN.",
    )
    text = page_of(desk, body)
    for expected in (
        "Pay invoice 4711", "payments.transfer", "billing-bot", "s-1", "Sends money.", "/amount",
        "Check the IBAN.", "<strong>4711</strong>", 'href="https://bot.example/1"',
        'href="https://example.com/invoice"',
    ):  # fmt: skip
        assert expected in text, expected


def test_the_page_offers_changes_and_says_what_happens(agent: Agent, desk: Client) -> None:
    text = page_of(desk, agent.asked(editable=["/amount"]))
    for expected in (
        "The agent runs it with these arguments.", "The agent is asked to change it.",
        "The agent gets your reason and does not run it.", "Request changes",
    ):  # fmt: skip
        assert expected in text, expected
    assert text.count("readonly") == 2


def test_hostile_texts_do_nothing(agent: Agent, desk: Client) -> None:
    hostile = "<script>alert(0)</script>\u202e"
    body = agent.asked(
        action={"title": hostile, "description": hostile},
        requested_by={"agent": hostile, "session": hostile},
        context=CONTEXT + hostile,
        instructions=hostile,
    )
    text = page_of(desk, body)
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert 'src="https://evil' not in text
    assert 'href="javascript' not in text
    assert "\u202e" not in text


def test_an_action_that_nobody_may_edit_has_no_form_to_edit(agent: Agent, desk: Client) -> None:
    body = agent.asked(editable=False)
    text = page_of(desk, body)
    assert "The agent does not allow edits." in text
    assert 'data-can-edit="no"' in text


def test_a_decision_on_the_page_reaches_the_agent(
    agent: Agent, desk: Client, settings: object
) -> None:
    body = agent.asked()
    hold = hold_of(body)
    url = reverse("reviews:decision", args=(hold.execution_id, hold.pk))
    posted = {
        "version": hold.execution.version,
        "decision": "REJECT",
        "comment": "not this year",
        "mode": "form",
        "undo_seconds": "0",
    }
    assert desk.post(url, posted).status_code in (200, 302, 303)
    run_to_rest(hold.execution_id)
    hold.refresh_from_db()
    assert hold.decision == "REJECT"


def test_the_second_round_shows_the_first_one(agent: Agent, reviewer: User, desk: Client) -> None:
    body = agent.asked()
    decided(body, reviewer, "REQUEST_CHANGES", comment="half of it")
    agent.post(f"{body['id']}/resubmit/", {"arguments": {**PAY, "amount": 125}})
    text = page_of(desk, body)
    assert "half of it" in text


def test_queue_and_run_pages_open(agent: Agent, desk: Client) -> None:
    body = agent.asked(action={"title": "Pay invoice 4711"})
    assert "Pay invoice 4711" in desk.get("/review/").content.decode()
    run = reverse("reviews:run", args=(row_of(body).execution_id,))
    assert "payments.transfer" in desk.get(run).content.decode()


def test_past_decisions_and_insights_count_actions(
    agent: Agent, desk: Client, reviewer: User
) -> None:
    first = agent.asked()
    decided(first, reviewer, edits={**PAY, "amount": 200}, comment="Less this month.")
    record = HumanReviewRecord.objects.get()
    hold = hold_of(agent.asked(action={"arguments": {**PAY, "amount": 251}}))
    url = reverse("reviews:precedents", args=(hold.execution_id, hold.pk))
    (shown,) = desk.get(url).context["similar_decisions"]
    assert shown["url"] == reverse("reviews:record", args=(record.pk,))
    assert shown["comment"] == "Less this month."
    period = Period.of(7, today=datetime.now(UTC).date())
    ((tool, tally),) = insights_statistics.tally_by(Scope(reviewer, period), "tool")
    assert (tool, tally.total, tally.edited) == ("payments.transfer", 1, 1)
    assert "payments.transfer" in desk.get("/insights/").text


def test_the_admin_shows_no_secret_of_an_approval(agent: Agent, reviewer: User) -> None:
    root = User.objects.create_superuser("root")
    secret = "password=hunter2hunter2"
    body = agent.asked(
        action={"title": secret},
        requested_by={
            "agent": secret, "session": secret, "url": "https://bot.example/?password=hunter2hunter2",
        },
        context=secret,
    )  # fmt: skip
    decided(body, reviewer)
    output = {"password": "hunter2hunter2"}
    agent.post(f"{body['id']}/result/", {"ok": False, "output": output, "error": "pw"})
    client = Client()
    client.force_login(root)
    for page in (
        reverse("admin:workflows_approval_change", args=(body["id"],)),
        reverse("admin:workflows_approval_changelist"),
    ):
        text = client.get(page).text
        assert "payments.transfer" in text
        assert "hunter2" not in text


def test_locked_choices_are_read_only(agent: Agent, desk: Client, reviewer: User) -> None:
    schema = {
        "type": "object",
        "properties": {
            "color": {"enum": ["red", "blue"]},
            "urgent": {"type": "boolean"},
            "silent": {"type": "boolean"},
            "lines": {"type": "array", "items": {"type": "string"}},
            "amount": {"type": "integer"},
        },
    }
    arguments = {"color": "red", "urgent": True, "lines": ["a"], "amount": 1}
    body = agent.asked(action={"arguments": arguments, "schema": schema}, editable=["/amount"])
    text = page_of(desk, body)
    chunks = [each.split(">")[0] for each in text.split('<select class="select"')[1:]]
    selects = [each for each in chunks if 'name="v:' in each]
    assert len(selects) == 2
    assert all("disabled" in each for each in selects)
    boxes = [each.split(">")[0] for each in text.split('<input type="checkbox"')[1:]]
    box = next(each for each in boxes if 'name="v:/urgent"' in each)
    assert "disabled" in box
    assert "data-add-item" not in text
    assert "data-remove-item" not in text
    # What the browser submits for the disabled controls keeps their values.
    hidden = dict(re.findall(r'<input type="hidden"\s+name="([^"]+)"\s+value="([^"]*)"', text))
    posted = {name: html.unescape(value) for name, value in hidden.items() if ":" in name}
    form = {"decision": "APPROVE", "version": hold_of(body).execution.version, "mode": "form"}
    url = reverse("reviews:decision", args=(body["execution_id"], body["hold_id"]))
    changed = {"v:/amount": "7", "s:/amount": "set", "confirmed": "yes"}
    fields = {**posted, **form, **changed}
    assert desk.post(url, fields).status_code == 303
    run_to_rest(int(body["execution_id"]))
    assert agent.get(body["id"])["arguments"] == {**arguments, "amount": 7}


@pytest.mark.parametrize("phase", ["BEFORE_EXECUTION", "AFTER_EXECUTION"])
def test_the_editor_has_no_secret_of_an_action(
    people: Callable[..., User], agent: Agent, client: Client, phase: str
) -> None:
    action = {"arguments": {"api_key": "Zx9qTopSecret42", "to": "ACME"}}
    if phase == "AFTER_EXECUTION":
        action["output"] = {"password": "Zx9qTopSecret42"}
    run = agent.asked(action=action, phase=phase)["execution_id"]
    client.force_login(people("root", "admin", "operator"))
    page = client.get(f"/workflows/edit/?run={run}")
    assert page.status_code == 200
    assert "ACME" in page.text
    assert "Zx9qTopSecret42" not in page.text
