"""Adaptive Cards for Teams, in the chat of a team and in the chat of one person."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db.models.functions import Now
from django.test import Client

from reviews.models import ChatHook, HumanReviewRecord, NoticeMessage
from reviews.notifications import sender
from tests.integration.reviews.conftest import MakeUser, Start, echo, only_hold
from tests.integration.reviews.notifications.conftest import consume_journal
from tests.support.pages import Page
from tests.support.webhook_receiver import Receiver, receiving
from workflows.common.secret_encryption import encrypt
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User


@pytest.fixture
def teams(transactional_db: None, settings: Any) -> Iterator[Receiver]:
    settings.HOLDPOINT = {
        **settings.HOLDPOINT,
        "notice_gather_seconds": 0,
        "notice_pause_seconds": 0,
        "notice_backoff_seconds": 0,
        "webhook_allow_loopback": True,
        "answer_link_hours": 24,
        "undo_seconds": 0,
    }
    with receiving(Receiver(answer=lambda _: 202)) as found:
        yield found


@pytest.fixture
def ann(make_user: MakeUser) -> User:
    return make_user("ann", "reviewer")


def hook_to(teams: Receiver, **fields: Any) -> ChatHook:
    kinds = ["waiting", "decided"]
    return ChatHook.objects.create(
        name="teams", format="teams", url=encrypt(teams.url), kinds=kinds, **fields
    )


def waiting(start: Start, **fields: Any) -> Hold:
    task = echo("a", "under review", phase="AFTER_EXECUTION", on_timeout="keep_waiting")
    return only_hold(start(task, **fields))


def deliver() -> None:
    consume_journal()
    while sender.send_next("hook"):
        pass


def urls(body: dict[str, Any]) -> dict[str, str]:
    """The buttons of a card."""
    (attachment,) = body["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    parts = [item for each in attachment["content"]["body"] for item in each["items"]]
    actions = [a for part in parts if part["type"] == "ActionSet" for a in part["actions"]]
    assert {each["type"] for each in actions} == {"Action.OpenUrl"}
    return {each["title"]: each["url"] for each in actions}


def test_a_teams_chat_gets_a_card_without_the_payload(
    start: Start, ann: User, teams: Receiver
) -> None:
    hook_to(teams)
    title = "x [click](https://evil.example) **bold** \u202e"
    hold = waiting(start, title=title)
    deliver()
    (got,) = teams.got
    assert (got.body["type"], len(got.body["attachments"])) == ("message", 1)
    link = f"http://testserver/review/{hold.execution_id}/{hold.pk}/"
    assert urls(got.body) == {"Open in Holdpoint": link}
    text = json.dumps(got.body, ensure_ascii=False)
    assert "under review" not in text
    assert "\u202e" not in text
    content = got.body["attachments"][0]["content"]
    (run,) = content["body"][0]["items"][0]["inlines"]
    assert run["type"] == "TextRun"  # interprets no Markdown
    assert title[:-1] in run["text"]


def test_the_chat_of_a_person_decides_by_a_signed_link(
    start: Start, ann: User, make_user: MakeUser, teams: Receiver, client: Client
) -> None:
    hook_to(teams, user=ann)
    bob = make_user("bob", "legal")
    hold = waiting(start)
    deliver()
    (got,) = teams.got
    buttons = {name: url.removeprefix("http://testserver") for name, url in urls(got.body).items()}
    assert list(buttons) == ["Approve…", "Reject…", "Edit…"]
    assert buttons["Edit…"] == f"/review/{hold.execution_id}/{hold.pk}/"
    for name, offered in (("Reject…", {"REJECT"}), ("Approve…", {"APPROVE"})):
        page = client.get(buttons[name])
        form = {"token": buttons[name].partition("#")[2], "chosen": page.context["chosen"]}
        shown = client.post("/answer/review/", form)
        assert Page(shown).answers("decision") == offered
    assert client.post("/answer/review/", {**form, "decision": "APPROVE"}).status_code == 200
    record = HumanReviewRecord.objects.get(hold=hold)
    assert (record.reviewer, record.source) == (ann, "link")
    ChatHook.objects.update(user=bob)  # who may not decide it gets nothing about it
    waiting(start)
    deliver()
    assert len(teams.got) == 1


def test_nothing_goes_to_the_chat_of_a_disabled_person(
    start: Start, ann: User, teams: Receiver
) -> None:
    hook_to(teams, user=ann)
    waiting(start)
    consume_journal()
    ann.is_active = False
    ann.save()
    deliver()
    assert teams.got == []
    assert NoticeMessage.objects.get().status == "DROPPED"


def test_a_rate_limit_is_respected(start: Start, ann: User, teams: Receiver) -> None:
    hook_to(teams)
    teams.answer = lambda _: 429
    teams.headers = {"Retry-After": "60"}
    waiting(start)
    deliver()
    later = NoticeMessage.objects.filter(next_at__gt=Now() + timedelta(seconds=30))
    assert later.get().attempts == 1


def test_the_admin_tests_a_teams_hook(make_user: MakeUser, teams: Receiver) -> None:
    from tests.support.pages import browser

    hook = hook_to(teams)
    client = browser(make_user("root", "admin", is_staff=True, is_superuser=True))
    test = {"action": "send_test", "_selected_action": hook.pk}
    client.post("/admin/reviews/chathook/", test)
    (got,) = teams.got
    assert "can post to this channel" in json.dumps(got.body)
