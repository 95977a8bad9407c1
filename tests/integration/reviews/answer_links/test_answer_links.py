"""Links in e-mails: the token is posted, and decides the review once, as the person of the link."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from django.core import mail, signing
from django.db import connections
from django.test import Client

from reviews.answer_links import services
from reviews.decisions.withdrawal import withdraw
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
from workflows.engine.protocol.commands import AddMessage
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


def opened(client: Client, link: str, **form: str) -> Any:
    """What a browser gets that posts the token of the link, and the form of its page."""
    _, _, token = link.partition("#")
    return client.post("/answer/review/", {"token": token, **form})


def test_the_link_of_a_mail_shows_the_review_and_decides_it_once(ann: User, hold: Hold) -> None:
    mails_everything(ann)
    consume_journal()
    send_all()
    (message,) = mail.outbox
    path = next(line for line in message.body.splitlines() if "/answer/" in line).split()[-1]
    path = path[path.index("/answer/") :]
    browser = Client(enforce_csrf_checks=True)

    page = browser.get(path)  # as programs that scan e-mails do: no token is sent
    assert page.status_code == 200
    assert "no-store" in page["Cache-Control"]
    token = {"csrfmiddlewaretoken": csrf(browser)}
    shown = opened(browser, path, **token)
    assert shown.status_code == 200
    assert shown.context["d"]["can_decide"]
    assert "no-store" in shown["Cache-Control"]
    assert not HumanReviewRecord.objects.exists()

    form = {"decision": "APPROVE", "comment": "fine", **token}
    decided = opened(browser, path, **form)
    assert decided.status_code == 200
    assert decided.context["d"]["decided"]["by"] == "ann"
    record = HumanReviewRecord.objects.get()
    assert (record.reviewer, record.decision, record.source) == (ann, "APPROVE", "link")

    after = opened(browser, path, **token)
    assert after.context["d"]["decided"]["by"] == "ann"
    assert "view" not in after.context  # the payload is no longer shown
    assert opened(browser, path, **{**form, "decision": "REJECT"}).status_code == 409
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
    shown = opened(client, link(ann, hold))
    for expected in (
        "payments.transfer", "Sends money.", "billing-bot", "s-1", "olga", "<strong>4711</strong>",
    ):  # fmt: skip
        assert expected in shown.text, expected
    assert "hunter2" not in shown.text


def test_a_post_from_another_site_decides_nothing(ann: User, hold: Hold) -> None:
    browser = Client(enforce_csrf_checks=True)
    assert opened(browser, link(ann, hold), decision="APPROVE").status_code == 403
    assert not HumanReviewRecord.objects.exists()


def test_a_rejection_needs_its_reason(client: Client, ann: User, hold: Hold) -> None:
    path = link(ann, hold)
    assert opened(client, path, decision="REJECT").status_code == 422
    assert opened(client, path, decision="REJECT", comment="no").status_code == 200
    assert HumanReviewRecord.objects.get().comment == "no"


def test_other_events_of_the_run_do_not_end_a_link(client: Client, ann: User, hold: Hold) -> None:
    path = link(ann, hold)
    message = AddMessage(role="user", content="more context")
    submit_command(
        execution_id=hold.execution_id,
        command=message,
        actor=actor_named("o"),
        source="rest",
        version=None,
    )
    assert opened(client, path, decision="APPROVE").status_code == 200
    assert HumanReviewRecord.objects.get().decision == "APPROVE"


def test_a_decision_on_a_parallel_review_does_not_end_a_link(
    client: Client, ann: User, start: Start
) -> None:
    tasks = (echo("a", phase=AFTER), echo("b", phase=AFTER))
    first, second = Hold.objects.filter(execution=start(*tasks))
    paths = [link(ann, first), link(ann, second)]
    for path in paths:
        assert opened(client, path, decision="APPROVE").status_code == 200
    assert set(HumanReviewRecord.objects.values_list("hold", flat=True)) == {first.pk, second.pk}


def test_everybody_of_a_quorum_votes_by_their_link(
    client: Client, ann: User, make_user: MakeUser, start: Start
) -> None:
    people = [ann, *(make_user(name, "reviewer", email="r@example.com") for name in ("ben", "cat"))]
    hold = only_hold(start(echo("a", phase=AFTER, quorum=3)))
    paths = [link(person, hold) for person in people]
    first = opened(client, paths[0], decision="APPROVE")
    assert first.status_code == 200
    assert "Your approval counts. 2 more approvals are needed." in first.text
    again = opened(client, paths[0], decision="APPROVE")
    assert again.status_code == 409
    assert "2 more approvals are needed" in again.text
    second = opened(client, paths[1], decision="APPROVE")
    assert "Your approval counts. 1 more approval is needed." in second.text
    assert "view" in opened(client, paths[2]).context
    last = opened(client, paths[2], decision="APPROVE")
    assert last.context["d"]["decided"]["decision"] == "APPROVE"
    assert [each.reviewer for each in HumanReviewRecord.objects.order_by("id")] == people
    assert Hold.objects.get(pk=hold.pk).status == Hold.Status.APPROVED


def test_votes_by_link_at_once_all_count(ann: User, make_user: MakeUser, start: Start) -> None:
    people = [ann, *(make_user(name, "reviewer", email="r@example.com") for name in ("ben", "cat"))]
    hold = only_hold(start(echo("a", phase=AFTER, quorum=3)))
    # Each link is pressed twice.
    paths = [link(person, hold) for person in people] * 2

    def vote(path: str) -> int:
        try:
            return int(opened(Client(), path, decision="APPROVE").status_code)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(paths)) as pool:
        statuses = sorted(pool.map(vote, paths))
    assert statuses == [200, 200, 200, 409, 409, 409]
    assert HumanReviewRecord.objects.count() == 3
    assert Hold.objects.get(pk=hold.pk).status == Hold.Status.APPROVED


def test_a_link_ends_with_a_change_of_what_the_review_shows(
    client: Client, ann: User, hold: Hold
) -> None:
    path = link(ann, hold)
    Hold.objects.filter(pk=hold.pk).update(payload={"other": 1})
    shown = opened(client, path)
    assert shown.context["is_changed"]
    assert "view" not in shown.context
    assert f"/review/{hold.execution_id}/{hold.pk}/" in shown.text
    assert opened(client, path, decision="APPROVE").status_code == 409
    assert not HumanReviewRecord.objects.exists()


def test_a_withdrawn_decision_is_not_given_again_by_its_link(
    client: Client, ann: User, start: Start
) -> None:
    """Whoever else has the link could undo the undoing."""
    hold = only_hold(start(echo("a", phase=AFTER, quorum=2)))
    path = link(ann, hold)
    assert opened(client, path, decision="APPROVE").status_code == 200
    withdraw(hold_id=hold.pk, user=ann, source="web")
    assert "Your decision was withdrawn" in opened(client, path).text
    assert opened(client, path, decision="APPROVE").status_code == 409
    assert HumanReviewRecord.objects.standing().count() == 0
    assert opened(client, link(ann, hold), decision="APPROVE").status_code == 200


def test_a_link_of_the_future_is_refused(
    client: Client, ann: User, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made while the clock was ahead, it would last longer than links do."""
    now = time.time()
    for ahead, status in (
        (10 * 86_400, 410),
        (120, 410),
        (30, 200),
        (-86_000, 200),
        (-86_500, 410),
    ):
        with monkeypatch.context() as clock:
            clock.setattr(time, "time", lambda ahead=ahead: now + ahead)
            path = link(ann, hold)
        assert opened(client, path).status_code == status, ahead


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
    assert opened(client, path).status_code == 410
    assert opened(client, path, decision="APPROVE").status_code == 410
    assert not HumanReviewRecord.objects.exists()


@pytest.mark.parametrize("name", ["user", "hold", "shown", "made"])
def test_a_changed_link_is_refused(name: str, client: Client, ann: User, hold: Hold) -> None:
    _, _, token = link(ann, hold).partition("#")
    salt = "reviews.answer_links.shown"
    content = {**signing.Signer(salt=salt).unsign_object(token), name: 1}
    forged = signing.Signer(key="another key", salt=salt).sign_object(content)
    other_salt = signing.Signer(salt="reviews.other").sign_object(content)
    earlier = signing.dumps(content, salt="reviews.answer_links")
    for each in (forged, other_salt, earlier, token[:-1], token.partition(":")[0], ""):
        assert opened(client, f"#{each}").status_code == 410, each
    assert client.get(f"/answer/{token}/").status_code == 404
    assert not HumanReviewRecord.objects.exists()


def test_no_link_works_while_links_are_off(
    client: Client, ann: User, hold: Hold, settings: Any
) -> None:
    path = link(ann, hold)
    settings.HOLDPOINT = {**settings.HOLDPOINT, "answer_link_hours": 0}
    assert opened(client, path).status_code == 410
    assert services.path_for(ann, hold) == ""


def test_four_eyes_hold_for_links(client: Client, make_user: MakeUser, start: Start) -> None:
    both = make_user("both", "reviewer", "operator", email="both@example.com")
    own = only_hold(start(echo("a", phase=AFTER), actor=both))
    path = link(both, own)
    assert not opened(client, path).context["d"]["can_decide"]
    assert opened(client, path, decision="APPROVE").status_code == 403
    assert not HumanReviewRecord.objects.exists()


def test_high_risk_and_step_up_ask_to_sign_in(
    client: Client, ann: User, hold: Hold, settings: Any
) -> None:
    path = link(ann, hold)
    Hold.objects.filter(pk=hold.pk).update(critical=True, phase=BEFORE)
    assert opened(client, path, decision="APPROVE").status_code == 403
    assert services.path_for(ann, Hold.objects.get(pk=hold.pk)) == ""
    Hold.objects.filter(pk=hold.pk).update(critical=False, phase=AFTER)
    settings.HOLDPOINT = {**settings.HOLDPOINT, "step_up": "all"}
    shown = opened(client, path)
    assert "view" not in shown.context
    assert opened(client, path, decision="REJECT", comment="no").status_code == 403
    assert not HumanReviewRecord.objects.exists()


def test_a_link_takes_neither_edits_nor_other_decisions(
    client: Client, ann: User, hold: Hold
) -> None:
    path = link(ann, hold)
    for decision in ("", "REQUEST_CHANGES", "EDIT"):
        assert opened(client, path, decision=decision, comment="no").status_code == 422
    edits = {"edits_json": '{"a": 2}', "edits": '{"a": 2}'}
    opened(client, path, decision="APPROVE", **edits)
    assert not HumanReviewRecord.objects.get().is_edited


def test_attempts_of_a_link_are_limited(
    client: Client, ann: User, hold: Hold, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "time", SimpleNamespace(time=lambda: 1_800_000_010.0))
    settings.HOLDPOINT = {**settings.HOLDPOINT, "decisions_per_minute": 2}
    path = link(ann, hold)
    sent = [opened(client, path, decision="REJECT") for _ in range(4)]
    assert [each.status_code for each in sent] == [422, 422, 429, 429]
    assert sent[-1]["Retry-After"] == "50"
    assert "Too many decisions" in sent[-1].content.decode()
    assert (
        CommandLog.objects.filter(execution=hold.execution).exclude(outcome="applied").count() == 2
    )
    assert opened(client, path).status_code == 200
    assert not throttling.count_requests(f"user-{ann.pk}", ["decide"])  # REST counts apart


def test_useless_attempts_of_a_link_are_not_logged(client: Client, ann: User, hold: Hold) -> None:
    path = link(ann, hold)
    before = CommandLog.objects.count()
    assert opened(client, path, decision="x").status_code == 422
    assert CommandLog.objects.count() == before
    assert opened(client, path, decision="APPROVE").status_code == 200
    before = CommandLog.objects.count()
    for decision in ("APPROVE", "x"):
        assert opened(client, path, decision=decision).status_code in (409, 422)
    assert CommandLog.objects.count() == before
