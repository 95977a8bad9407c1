"""Links in e-mails: GET shows the review, POST decides it once, as the person of the link."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from django.core import mail, signing
from django.test import Client

from reviews.answer_links import services
from reviews.models import HumanReviewRecord
from tests.integration.reviews.conftest import MakeUser, Start, echo, only_hold
from tests.integration.reviews.notifications.conftest import consume_journal
from tests.integration.reviews.notifications.test_outgoing_messages import (
    mails_everything,
    send_all,
)
from tests.support.actors import actor_named
from workflows.api import throttling
from workflows.approvals.services import ask
from workflows.engine.commands import AddMessage
from workflows.executions.services import submit_command
from workflows.models import CommandLog, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

AFTER, BEFORE = "AFTER_EXECUTION", "BEFORE_EXECUTION"


@pytest.fixture(autouse=True)
def _links(transactional_db: None, settings: Any) -> None:
    settings.HOLDPOINT = {
        **settings.HOLDPOINT,
        "answer_link_hours": 24,
        "notice_gather_seconds": 0,
        "notice_pause_seconds": 0,
        "undo_seconds": 0,
    }


@pytest.fixture
def ann(make_user: MakeUser) -> User:
    return make_user("ann", "reviewer", email="ann@example.com")


@pytest.fixture
def hold(start: Start, ann: User) -> Hold:
    return only_hold(start(echo("a", phase=AFTER, on_timeout="keep_waiting")))


def link(user: User, hold: Hold) -> str:
    hold = Hold.objects.select_related("execution").get(pk=hold.pk)
    path = services.path_for(user, hold)
    assert path
    return path


def test_the_link_of_a_mail_shows_the_review_and_decides_it_once(ann: User, hold: Hold) -> None:
    mails_everything(ann)
    consume_journal()
    send_all()
    (message,) = mail.outbox
    path = next(line for line in message.body.splitlines() if "/answer/" in line).split()[-1]
    path = path[path.index("/answer/") :]
    browser = Client(enforce_csrf_checks=True)

    shown = browser.get(path)
    assert shown.status_code == 200
    assert shown.context["d"]["can_decide"]
    assert "no-store" in shown["Cache-Control"]
    assert not HumanReviewRecord.objects.exists()  # GET decides nothing: scanners open links

    form = {"decision": "APPROVE", "comment": "fine", "csrfmiddlewaretoken": csrf(browser)}
    decided = browser.post(path, form)
    assert (decided.status_code, decided["Location"]) == (303, path)
    record = HumanReviewRecord.objects.get()
    assert (record.reviewer, record.decision, record.source) == (ann, "APPROVE", "link")

    after = browser.get(path)
    assert after.context["d"]["decided"]["by"] == "ann"
    assert "view" not in after.context  # the payload is no longer shown
    assert browser.post(path, {**form, "decision": "REJECT"}).status_code == 409
    assert HumanReviewRecord.objects.count() == 1


def csrf(browser: Client) -> str:
    return browser.cookies["holdpoint_csrf"].value


def test_the_page_has_what_an_agent_says_about_its_action(
    client: Client, ann: User, make_user: MakeUser
) -> None:
    fields = {
        "action": {"name": "payments.transfer", "description": "Sends money.", "arguments": {}},
        "phase": BEFORE,
        "risk": "low",
        "context": "Invoice **4711** is due. password=hunter2hunter2",
        "requested_by": {"agent": "billing-bot", "session": "s-1"},
    }
    approval = ask(actor=make_user("olga", "integrator"), fields=fields)
    hold = Hold.objects.get(execution=approval.execution_id)
    shown = client.get(link(ann, hold))
    assert shown["Referrer-Policy"] == "strict-origin"
    for expected in (
        "payments.transfer", "Sends money.", "billing-bot", "s-1", "olga", "<strong>4711</strong>",
    ):  # fmt: skip
        assert expected in shown.text, expected
    assert "hunter2" not in shown.text


def test_a_post_from_another_site_decides_nothing(ann: User, hold: Hold) -> None:
    browser = Client(enforce_csrf_checks=True)
    assert browser.post(link(ann, hold), {"decision": "APPROVE"}).status_code == 403
    assert not HumanReviewRecord.objects.exists()


def test_a_rejection_needs_its_reason(client: Client, ann: User, hold: Hold) -> None:
    path = link(ann, hold)
    assert client.post(path, {"decision": "REJECT"}).status_code == 422
    assert client.post(path, {"decision": "REJECT", "comment": "no"}).status_code == 303
    assert HumanReviewRecord.objects.get().comment == "no"


def test_a_link_ends_with_an_event_of_the_run(client: Client, ann: User, hold: Hold) -> None:
    path = link(ann, hold)
    message = AddMessage(role="user", content="more context")
    submit_command(
        execution_id=hold.execution_id,
        command=message,
        actor=actor_named("o"),
        source="rest",
        version=None,
    )
    shown = client.get(path)
    assert shown.context["moved_on"]
    assert client.post(path, {"decision": "APPROVE"}).status_code == 409
    assert not HumanReviewRecord.objects.exists()


@pytest.mark.parametrize("change", ["password", "inactive", "group"])
def test_a_link_ends_with_the_rights_of_its_person(
    change: str, client: Client, ann: User, hold: Hold
) -> None:
    path = link(ann, hold)
    if change == "password":
        ann.set_password("another one, long enough")
        ann.save()
    elif change == "inactive":
        ann.is_active = False
        ann.save()
    else:
        ann.groups.clear()
    assert client.get(path).status_code == 410
    assert client.post(path, {"decision": "APPROVE"}).status_code == 410
    assert not HumanReviewRecord.objects.exists()


@pytest.mark.parametrize("name", ["user", "hold", "version"])
def test_a_changed_link_is_refused(name: str, client: Client, ann: User, hold: Hold) -> None:
    token = link(ann, hold).split("/")[2]
    content = {**signing.loads(token, salt="reviews.answer_links"), name: 1}
    forged = signing.dumps(content, key="another key", salt="reviews.answer_links")
    other_salt = signing.dumps(content, salt="reviews.other")
    for each in (forged, other_salt, token[:-1], token.partition(":")[0], "x"):
        assert client.get(f"/answer/{each}/").status_code == 410
    assert not HumanReviewRecord.objects.exists()


def test_no_link_works_while_links_are_off(
    client: Client, ann: User, hold: Hold, settings: Any
) -> None:
    path = link(ann, hold)
    settings.HOLDPOINT = {**settings.HOLDPOINT, "answer_link_hours": 0}
    assert client.get(path).status_code == 410
    assert services.path_for(ann, hold) == ""


def test_four_eyes_hold_for_links(client: Client, make_user: MakeUser, start: Start) -> None:
    both = make_user("both", "reviewer", "operator", email="both@example.com")
    own = only_hold(start(echo("a", phase=AFTER), actor=both))
    path = link(both, own)
    assert not client.get(path).context["d"]["can_decide"]
    assert client.post(path, {"decision": "APPROVE"}).status_code == 403
    assert not HumanReviewRecord.objects.exists()


def test_high_risk_and_step_up_ask_to_sign_in(
    client: Client, ann: User, hold: Hold, settings: Any
) -> None:
    path = link(ann, hold)
    Hold.objects.filter(pk=hold.pk).update(critical=True, phase=BEFORE)
    assert client.post(path, {"decision": "APPROVE"}).status_code == 403
    assert services.path_for(ann, Hold.objects.get(pk=hold.pk)) == ""
    Hold.objects.filter(pk=hold.pk).update(critical=False, phase=AFTER)
    settings.HOLDPOINT = {**settings.HOLDPOINT, "step_up": "all"}
    shown = client.get(path)
    assert "view" not in shown.context
    assert client.post(path, {"decision": "REJECT", "comment": "no"}).status_code == 403
    assert not HumanReviewRecord.objects.exists()


def test_a_link_takes_neither_edits_nor_other_decisions(
    client: Client, ann: User, hold: Hold
) -> None:
    path = link(ann, hold)
    for decision in ("", "REQUEST_CHANGES", "EDIT"):
        assert client.post(path, {"decision": decision, "comment": "no"}).status_code == 422
    client.post(path, {"decision": "APPROVE", "edits_json": '{"a": 2}', "edits": '{"a": 2}'})
    assert not HumanReviewRecord.objects.get().is_edited


def test_attempts_of_a_link_are_limited(
    client: Client, ann: User, hold: Hold, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "time", SimpleNamespace(time=lambda: 1_800_000_010.0))
    settings.HOLDPOINT = {**settings.HOLDPOINT, "decisions_per_minute": 2}
    path = link(ann, hold)
    sent = [client.post(path, {"decision": "REJECT"}) for _ in range(4)]
    assert [each.status_code for each in sent] == [422, 422, 429, 429]
    assert sent[-1]["Retry-After"] == "50"
    assert "Too many decisions" in sent[-1].content.decode()
    assert (
        CommandLog.objects.filter(execution=hold.execution).exclude(outcome="applied").count() == 2
    )
    assert client.get(path).status_code == 200
    assert not throttling.count_requests(f"user-{ann.pk}", ["decide"])  # REST counts apart


def test_useless_attempts_of_a_link_are_not_logged(client: Client, ann: User, hold: Hold) -> None:
    path = link(ann, hold)
    before = CommandLog.objects.count()
    assert client.post(path, {"decision": "x"}).status_code == 422
    assert CommandLog.objects.count() == before
    assert client.post(path, {"decision": "APPROVE"}).status_code == 303
    before = CommandLog.objects.count()
    for decision in ("APPROVE", "x"):
        assert client.post(path, {"decision": decision}).status_code in (409, 422)
    assert CommandLog.objects.count() == before
