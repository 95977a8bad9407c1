"""E-mails and posts to chats: gathered, sent at least once, tried again, without a payload."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group
from django.core import mail
from django.core.mail.backends.base import BaseEmailBackend
from django.db.models.functions import Now

from reviews.models import ChatHook, NoticeMessage
from reviews.notifications import inbox, sender, sweeper_hooks
from reviews.notifications.preferences import KINDS, save_preferences
from tests.integration.reviews.conftest import Start, echo
from tests.integration.reviews.notifications.conftest import Wait, consume_journal
from tests.integration.reviews.notifications.test_notify import decide
from tests.integration.workflows.executions.test_reminders import at_once, pass_time
from tests.support.pages import open_page
from tests.support.webhook_receiver import Receiver, receiving
from workflows.common import crashpoints
from workflows.common.secret_encryption import encrypt
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import start_execution
from workflows.models import Hold, Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User

SECRET = "the payload nobody should read in a mail"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving(Receiver()) as found:
        yield found


def hook_to(receiver: Receiver, **fields: Any) -> ChatHook:
    kinds = fields.pop("kinds", ["waiting", "reminder", "escalated", "decided"])
    return ChatHook.objects.create(name="chat", url=encrypt(receiver.url), kinds=kinds, **fields)


def send_all(receiver: str = "user") -> int:
    """Tries made until nothing is due."""
    tries = 0
    while sender.send_next(receiver):
        tries += 1
    return tries


def mails_everything(user: User) -> None:
    save_preferences(user=user, shown=KINDS, mailed=KINDS)


def bodies(message: Any) -> str:
    parts = [message.subject, message.body, *(str(each[0]) for each in message.alternatives)]
    return "\n".join(parts)


# --- mail -----------------------------------------------------------------------------------------


def test_a_reminder_is_mailed_with_the_link_and_without_the_payload(
    wait: Wait, ann: User, settings: Any
) -> None:
    hold = wait(reminders=[{"after_seconds": 60}], instructions=SECRET)
    pass_time(hold, 61)
    sweeper_hooks.remind_due()
    assert send_all() == 1
    (message,) = mail.outbox
    assert message.to == ["ann@example.com"]
    assert message.subject == "[Holdpoint] Still waits for you: echo will run in “Ad-hoc run”"
    link = f"http://testserver/review/{hold.execution_id}/{hold.pk}/"
    assert link in message.body
    assert f'href="{link}"' in str(message.alternatives[0][0])
    assert "/notifications/preferences/" in message.body
    assert SECRET not in bodies(message)
    assert '"value"' not in bodies(message)
    assert (send_all(), len(mail.outbox)) == (0, 1)
    assert NoticeMessage.objects.get().status == "SENT"


def test_fifty_holds_are_one_mail_and_one_post(start: Start, ann: User, receiver: Receiver) -> None:
    mails_everything(ann)
    hook_to(receiver)
    start(*[echo(f"t{n}", phase="BEFORE_EXECUTION") for n in range(50)])
    consume_journal()
    assert (send_all(), send_all("hook")) == (1, 1)
    (message,) = mail.outbox
    assert "50 reviews" in message.subject
    assert message.body.count("/review/") == 11  # ten of them, and the queue
    assert "and 40 more" in message.body
    (got,) = receiver.got
    assert "50 reviews" in got.body["text"]
    assert got.body["blocks"][1]["text"]["text"].count("•") == 10


def test_a_hostile_title_stays_text(start: Start, ann: User, receiver: Receiver) -> None:
    mails_everything(ann)
    hook_to(receiver)
    title = "x\r\nBcc: all@example.com <script>alert(1)</script> <!channel>|\u202e`"
    start(echo("a", phase="BEFORE_EXECUTION"), title=title)
    consume_journal()
    assert (send_all(), send_all("hook")) == (1, 1)
    (message,) = mail.outbox
    assert "\n" not in message.subject
    assert message.recipients() == ["ann@example.com"]
    assert "<script>" not in str(message.alternatives[0][0])
    assert "\u202e" not in bodies(message)
    text = receiver.got[0].body["blocks"][0]["text"]["text"]
    assert "<!channel>" not in text
    assert text.count("<") == text.count("|") == 1  # the link's own


def test_read_or_decided_notices_are_not_mailed(
    wait: Wait, ann: User, bob: User, operator: User
) -> None:
    for each in (ann, bob):
        mails_everything(each)
    hold = wait()
    consume_journal()
    inbox.mark_hold_read(ann, hold)
    assert send_all() == 2
    assert [each.to for each in mail.outbox] == [["bob@example.com"]]
    assert sorted(NoticeMessage.objects.values_list("status", flat=True)) == ["DROPPED", "SENT"]


def test_users_who_lost_access_are_not_mailed(wait: Wait, ann: User) -> None:
    mails_everything(ann)
    wait()
    consume_journal()
    ann.groups.clear()
    assert (send_all(), mail.outbox) == (1, [])


def test_a_crash_after_sending_repeats_the_same_message(
    wait: Wait, ann: User, monkeypatch: Any
) -> None:
    monkeypatch.setattr("reviews.notifications.outbox.LEASE_SECONDS", 3600)
    mails_everything(ann)
    wait()
    consume_journal()

    def cut() -> None:
        raise RuntimeError("the power is gone")

    crashpoints.arm("message.sent", cut)
    try:
        with pytest.raises(RuntimeError):
            sender.send_next("user")
    finally:
        crashpoints.set_observer(None)
    assert send_all() == 0  # whoever took it may still be at it
    NoticeMessage.objects.update(next_at=Now() - timedelta(seconds=1))
    assert send_all() == 1
    first, again = mail.outbox
    ids = {str(each.extra_headers["Message-ID"]) for each in (first, again)}
    assert len(ids) == 1
    assert NoticeMessage.objects.get().status == "SENT"


def test_four_senders_send_each_message_once(start: Start, ann: User, bob: User) -> None:
    for each in (ann, bob):
        mails_everything(each)
    for number in range(3):
        start(echo("a", phase="BEFORE_EXECUTION"), title=f"run {number}")
        consume_journal()
        at_once(send_all)
    assert len(mail.outbox) == 6


class Refusing(BaseEmailBackend):
    """A mail server that takes nothing."""

    def send_messages(self, messages: Any) -> int:
        raise ConnectionRefusedError("no mail today")


def test_a_failing_message_is_retried_then_abandoned_and_shown(
    wait: Wait, ann: User, settings: Any
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "notice_max_attempts": 3}
    settings.EMAIL_BACKEND = f"{__name__}.Refusing"
    mails_everything(ann)
    wait()
    consume_journal()
    assert send_all() == 3
    message = NoticeMessage.objects.get()
    assert (message.status, message.attempts) == ("FAILED", 3)
    assert message.error == "ConnectionRefusedError: no mail today"
    page = open_page(ann, "/notifications/preferences/")
    assert "An e-mail to you could not be sent." in page.text
    assert "no mail today" in page.text


def test_the_wait_grows_with_each_failure(wait: Wait, ann: User, settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "notice_backoff_seconds": 1000}
    settings.EMAIL_BACKEND = f"{__name__}.Refusing"
    mails_everything(ann)
    wait()
    consume_journal()
    waits = []
    for _ in range(3):
        assert send_all() == 1
        row = NoticeMessage.objects.annotate(now=Now()).get()
        waits.append((row.next_at - row.now).total_seconds())
        NoticeMessage.objects.update(next_at=Now() - timedelta(seconds=1))
    # Somewhere in the upper half of 1000, 2000, 4000, less what this test itself took.
    assert 250 < waits[0] <= 1000
    assert 750 < waits[1] <= 2000
    assert 1600 < waits[2] <= 3600


def test_messages_to_one_person_are_spaced(wait: Wait, ann: User, settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "notice_pause_seconds": 3600}
    mails_everything(ann)
    wait()
    consume_journal()
    assert send_all() == 1
    wait()
    consume_journal()
    wait()
    consume_journal()
    assert send_all() == 0
    waiting = NoticeMessage.objects.get(status="PENDING")
    assert len(waiting.items) == 2
    NoticeMessage.objects.filter(pk=waiting.pk).update(next_at=Now() - timedelta(seconds=1))
    assert (send_all(), len(mail.outbox)) == (1, 2)


def test_the_file_backend_writes_mails(
    wait: Wait, ann: User, settings: Any, tmp_path: Path
) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    settings.EMAIL_FILE_PATH = str(tmp_path)
    mails_everything(ann)
    wait()
    consume_journal()
    assert send_all() == 1
    (file,) = tmp_path.glob("*.log")
    assert "To: ann@example.com" in file.read_text()


def test_without_a_mail_server_no_message_is_stored(wait: Wait, ann: User, settings: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
    mails_everything(ann)
    wait()
    consume_journal()
    assert not NoticeMessage.objects.exists()
    assert "sends no e-mail" in open_page(ann, "/notifications/preferences/").text


# --- chats ----------------------------------------------------------------------------------------


def test_a_chat_post_has_slacks_format(wait: Wait, ann: User, receiver: Receiver) -> None:
    hook = hook_to(receiver)
    hold = wait(instructions=SECRET)
    consume_journal()
    assert send_all("hook") == 1
    (got,) = receiver.got
    assert got.headers["content-type"] == "application/json"
    assert got.body["text"] == "Waits for you: echo will run in “Ad-hoc run”"
    (block,) = got.body["blocks"]
    link = f"http://testserver/review/{hold.execution_id}/{hold.pk}/"
    expected = f"• <{link}|Waits for you: echo will run in “Ad-hoc run”>"
    assert block == {"type": "section", "text": {"type": "mrkdwn", "text": expected}}
    assert SECRET not in json.dumps(got.body)
    hook.refresh_from_db()
    assert hook.last_success_at is not None


@pytest.mark.parametrize("matches", [True, False])
def test_a_chat_gets_only_its_workflow_and_group(
    wait: Wait, start: Start, receiver: Receiver, matches: bool
) -> None:
    plan = {"tasks": [echo("a", phase="BEFORE_EXECUTION", groups=["legal"])]}
    mine, other = (
        Workflow.objects.create(name=name, title=name, plan=plan) for name in ("mine", "other")
    )
    legal, board = (Group.objects.get_or_create(name=name)[0] for name in ("legal", "board"))
    hook_to(receiver, workflow=mine, group=legal)
    started = start_execution(actor=None, workflow=mine if matches else other)
    run_to_rest(started.pk)
    hook_to(receiver, group=board)
    consume_journal()
    send_all("hook")
    assert len(receiver.got) == matches


def test_a_failing_chat_is_retried_and_its_error_is_stored(wait: Wait, receiver: Receiver) -> None:
    hook = hook_to(receiver)
    answers = iter([500, None, 302, 200])
    receiver.answer = lambda _: next(answers)
    wait()
    consume_journal()
    errors = []
    while sender.send_next("hook"):
        hook.refresh_from_db()
        errors.append(hook.last_error)
    assert [bool(each) for each in errors] == [True, True, True, False]
    assert errors[0].startswith("HTTP 500")
    assert "redirected" in errors[2]  # never followed
    assert all(receiver.url not in each for each in errors)
    assert len(receiver.accepted) == 1


def test_a_private_chat_address_needs_permission(
    wait: Wait, receiver: Receiver, settings: Any
) -> None:
    hook = hook_to(receiver)
    settings.HOLDPOINT = {**settings.HOLDPOINT, "webhook_allow_loopback": False}
    wait()
    consume_journal()
    assert sender.send_next("hook") == 1
    hook.refresh_from_db()
    assert "not a public address" in hook.last_error or "not among" in hook.last_error
    assert receiver.got == []


def test_chats_receive_decisions(wait: Wait, ann: User, receiver: Receiver) -> None:
    hook_to(receiver, kinds=["decided"])
    hold: Hold = wait()
    decide(hold, ann, "REJECT", comment="no")
    consume_journal()
    assert send_all("hook") == 1
    assert receiver.got[0].body["text"] == "ann rejected a in “Ad-hoc run”"
