"""Reviews in Slack: messages with buttons, decisions by their people, and what is refused."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.db.models.functions import Now

from reviews.decisions import withdrawal
from reviews.models import (
    DeniedAttempt,
    HumanReviewRecord,
    SlackAccount,
    SlackChannel,
    SlackLinkCode,
    SlackMessage,
    SlackWorkspace,
)
from reviews.notifications import notice_text
from reviews.notifications.preferences import KINDS, save_preferences
from reviews.slack import accounts, interactions, outbox, sender, signatures
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold
from tests.integration.reviews.slack.conftest import ANN, Send, deliver, post_form
from tests.support.actors import actor_named
from tests.support.pages import browser, open_page
from tests.support.slack_server import SECRET, Slack, press, submission
from workflows.api import throttling
from workflows.approvals.services import ask
from workflows.common import crashpoints
from workflows.engine.protocol.commands import AddMessage
from workflows.executions.services import submit_command
from workflows.models import Execution, Hold
from workflows.permissions.roles import ensure_roles

if TYPE_CHECKING:
    from django.contrib.auth.models import User

AFTER, BEFORE = "AFTER_EXECUTION", "BEFORE_EXECUTION"
#: The example of Slack's page "Verifying requests from Slack".
EXAMPLE_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow"
    b"&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner"
    b"&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands"
    b"%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
EXAMPLE_SIGNATURE = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"


@pytest.fixture
def hold(start: Start, ann: User) -> Hold:
    return waiting(start)


def waiting(start: Start, value: Any = "text", **review: Any) -> Hold:
    """A run that waits after its task."""
    return only_hold(start(echo("a", value, phase=AFTER, on_timeout="keep_waiting", **review)))


def texts(content: dict[str, Any]) -> str:
    return json.dumps(content["blocks"], ensure_ascii=False)


def buttons(content: dict[str, Any]) -> list[str]:
    return [
        each["action_id"]
        for block in content["blocks"]
        if block["type"] == "actions"
        for each in block["elements"]
    ]


def records() -> list[tuple[str, str, str]]:
    rows = HumanReviewRecord.objects.order_by("pk")
    return list(rows.values_list("actor", "decision", "source"))


# --- messages and decisions -----------------------------------------------------------------------


def test_a_press_approves_once_and_the_message_says_who_decided(
    hold: Hold, slack: Slack, send: Send
) -> None:
    assert deliver() == 1
    message = slack.only()
    assert message["to"] == ANN
    assert buttons(message) == ["approve", "reject", "edit", "open"]
    pressed = press(message, "approve", user=ANN)
    answer = send(pressed)
    assert (answer.status_code, answer.content) == (200, b"")
    assert records() == [("ann", "APPROVE", "slack")]
    record = HumanReviewRecord.objects.get()
    assert record.reviewer is not None
    assert not record.is_edited

    again = send(pressed)  # Slack's request, replayed within its five minutes
    assert again.status_code == 200
    assert len(records()) == 1
    assert "ann approved this" in texts(slack.views[-1])
    deliver()
    assert "ann approved this" in texts(slack.only())
    assert buttons(slack.only()) == []
    assert {status for (status,) in SlackMessage.objects.values_list("status")} == {"SENT"}


def test_a_rejection_asks_for_its_reason(hold: Hold, slack: Slack, send: Send) -> None:
    deliver()
    assert send(press(slack.only(), "reject", user=ANN)).status_code == 200
    (view,) = slack.views
    refused = send(submission(view, {}, user=ANN)).json()
    assert refused["response_action"] == "errors"
    assert "comment" in refused["errors"]
    assert records() == []
    done = send(submission(view, {"comment": "not now"}, user=ANN)).json()
    assert done == {"response_action": "clear"}
    record = HumanReviewRecord.objects.get()
    assert (record.decision, record.comment, record.source) == ("REJECT", "not now", "slack")
    deliver()
    assert "ann rejected this: not now" in texts(slack.only())


def asked(operator: User, *, more: dict[str, Any] | None = None, **arguments: Any) -> Hold:
    """An action of an outside agent with these arguments, of low risk."""
    action = {"name": "payments.transfer", "title": "Pay invoice 4711", "arguments": arguments}
    fields = {"action": action, "phase": BEFORE, "risk": "low", **(more or {})}
    return Hold.objects.get(execution=ask(actor=operator, fields=fields).execution_id)


def test_a_message_has_what_the_agent_says_about_its_action(
    operator: User, ann: User, slack: Slack, send: Send
) -> None:
    more = {
        "context": "Invoice 4711 is **due** <!here>.",
        "requested_by": {"agent": "billing-bot", "session": "s-1", "url": "https://bot.example/"},
    }
    asked(operator, more=more, to="bob")
    deliver()
    message = slack.only()
    for action in ("reject", "edit"):
        send(press(message, action, user=ANN))
    for content in (message, *slack.views):
        for expected in ("billing-bot", "s-1", operator.username, "is **due**", "https://bot"):
            assert expected in texts(content), expected
    blocks = [block for block in message["blocks"] if "<!here>" in json.dumps(block)]
    assert [block["text"]["type"] for block in blocks] == ["plain_text"]


def test_a_context_that_does_not_fit_opens_the_desk(
    operator: User, ann: User, slack: Slack
) -> None:
    asked(operator, more={"context": "x" * 2901}, to="bob")
    deliver()
    assert buttons(slack.only()) == ["open"]


def test_presses_of_a_person_are_limited(
    hold: Hold, slack: Slack, send: Send, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "time", SimpleNamespace(time=lambda: 1_800_000_010.0))
    settings.HOLDPOINT = {**settings.HOLDPOINT, "decisions_per_minute": 1}
    deliver()
    message = slack.only()
    for _ in range(2):
        send(press(message, "reject", user=ANN))
    assert "Too many decisions" in texts(slack.views[-1])
    (dialog, *_) = slack.views
    answer = send(submission(dialog, {"comment": "no"}, user=ANN)).json()
    assert "Too many decisions" in texts(answer["view"])
    assert records() == []


def test_an_edit_is_what_the_agent_gets(
    operator: User, ann: User, slack: Slack, send: Send
) -> None:
    asked(operator, to="bob", amount=3, urgent=True, note={"text": "n"}, tags=["x"])
    deliver()
    assert "Pay invoice 4711" in texts(slack.only())
    send(press(slack.only(), "edit", user=ANN))
    (view,) = slack.views
    inputs = {b["block_id"]: b["element"] for b in view["blocks"] if b["type"] == "input"}
    assert inputs["v:/to"]["initial_value"] == "bob"
    wrong = send(submission(view, {"v:/amount": "many"}, user=ANN)).json()
    assert set(wrong["errors"]) == {"v:/amount"}
    assert records() == []
    changes = {"v:/to": "carol", "v:/amount": "4", "v:/urgent": "false", "v:/note/text": "m"}
    assert send(submission(view, changes, user=ANN)).json() == {"response_action": "clear"}
    record = HumanReviewRecord.objects.get()
    assert (record.is_edited, record.source) == (True, "slack")
    assert record.modified_data == {
        "to": "carol", "amount": 4, "urgent": False, "note": {"text": "m"}, "tags": ["x"],
    }  # fmt: skip


def test_only_what_the_agent_lets_people_edit_has_an_input(
    operator: User, ann: User, slack: Slack, send: Send
) -> None:
    action = {"name": "pay", "arguments": {"to": "bob", "amount": 3}}
    fields = {"action": action, "phase": BEFORE, "risk": "low", "editable": ["/amount"]}
    ask(actor=operator, fields=fields)
    deliver()
    send(press(slack.only(), "edit", user=ANN))
    (view,) = slack.views
    ids = [block["block_id"] for block in view["blocks"] if block["type"] == "input"]
    assert ids == ["v:/amount", "comment"]
    forged = submission(view, {"v:/amount": "4"}, user=ANN)
    forged["view"]["state"]["values"]["v:/to"] = {"value": {"value": "eve"}}
    send(forged)
    assert HumanReviewRecord.objects.get().modified_data == {"to": "bob", "amount": 4}


def test_a_high_risk_action_is_decided_on_the_desk(
    operator: User, ann: User, slack: Slack, send: Send
) -> None:
    action = {"name": "pay", "arguments": {"to": "bob"}}
    for phase, more in ((BEFORE, {}), (AFTER, {"output": {"paid": True}})):
        fields = {"action": {**action, **more}, "phase": phase, "risk": "high"}
        ask(actor=operator, fields=fields)
    deliver()
    assert len(slack.messages) == 2
    for message in slack.messages.values():
        assert buttons(message) == ["open"]


def test_a_channel_without_payloads_shows_it_only_in_the_dialog(
    hold: Hold, channel: SlackChannel, slack: Slack, send: Send, make_user: MakeUser
) -> None:
    SlackChannel.objects.update(show_payload=False)
    SlackAccount.objects.all().delete()
    hold_text = "the text under review"
    Hold.objects.filter(pk=hold.pk).update(payload={"value": hold_text})
    deliver()
    message = slack.only()
    assert message["to"] == "C0REVIEWS"
    assert hold_text not in texts(message)
    assert buttons(message) == ["review", "reject", "edit", "open"]
    accounts.link(channel.workspace, "U0BOB", make_user("bob", "reviewer"))
    send(press(message, "review", user="U0BOB"))
    assert hold_text in texts(slack.views[-1])
    stranger = make_user("eve", "integrator")
    accounts.link(channel.workspace, "U0EVE", stranger)
    send(press(message, "review", user="U0EVE"))
    assert hold_text not in texts(slack.views[-1])
    assert "may not see" in texts(slack.views[-1])
    send(submission(slack.views[0], {"comment": "fine"}, user="U0BOB"))
    assert records() == [("bob", "APPROVE", "slack")]


def test_secrets_are_masked_everywhere(
    operator: User, ann: User, channel: SlackChannel, slack: Slack, send: Send
) -> None:
    secret = "sk-live-4242424242424242abcdef"
    asked(operator, api_key=secret, text="t")
    deliver()
    assert len(slack.messages) == 2
    for message in slack.messages.values():
        send(press(message, "edit", user=ANN))
    assert secret not in json.dumps([slack.calls, slack.views])
    (first, _) = slack.views
    send(submission(first, {"v:/text": "u"}, user=ANN))
    record = HumanReviewRecord.objects.get()
    assert record.modified_data == {"api_key": secret, "text": "u"}


def test_secrets_in_titles_and_instructions_are_masked(
    start: Start,
    operator: User,
    ann: User,
    channel: SlackChannel,
    slack: Slack,
    send: Send,
) -> None:
    secret = "sk-live-4242424242424242abcdef"
    review = {"phase": AFTER, "on_timeout": "keep_waiting", "instructions": f"Compare {secret}"}
    hold = only_hold(start(echo("a", "text", **review), title=f"Rotate {secret}"))
    action = {"name": "keys.rotate", "title": f"Replace {secret}", "arguments": {"to": "bob"}}
    ask(actor=operator, fields={"action": action, "phase": BEFORE, "risk": "low"})
    deliver()
    shown = json.dumps(list(slack.messages.values()), ensure_ascii=False)
    assert all(f"{word} •" in shown for word in ("Rotate", "Replace", "Compare"))
    for message in slack.messages.values():
        send(press(message, "reject", user=ANN))
    assert slack.views
    assert secret not in json.dumps([slack.calls, slack.views])
    for kind, detail in (("waiting", {}), ("decided", {"decision": "APPROVE"})):
        assert secret not in notice_text.sentence(kind, hold, "ann", detail)


def test_a_hostile_payload_stays_text(start: Start, ann: User, slack: Slack) -> None:
    title = "x <!channel> *bold* <https://evil.example|click> \u202e"
    only_hold(start(echo("a", "<!here> ```", phase=AFTER), title=title))
    deliver()
    content = texts(slack.only())
    assert "<!channel>" not in content
    assert "<https://evil" not in content
    assert "\u202e" not in content
    kinds = [block["type"] for block in slack.only()["blocks"] if "<!here>" in json.dumps(block)]
    assert kinds == ["rich_text"]  # literal text for Slack


def test_a_long_payload_and_high_risk_open_the_desk(
    start: Start, ann: User, slack: Slack, send: Send
) -> None:
    only_hold(start(echo("a", "x" * 4000, phase=AFTER)))
    deliver()
    assert buttons(slack.only()) == ["open"]
    assert "Sign in to Holdpoint" in texts(slack.only())


def test_a_review_that_became_high_risk_is_not_decided(
    hold: Hold, slack: Slack, send: Send, settings: Any
) -> None:
    deliver()
    settings.HOLDPOINT = {**settings.HOLDPOINT, "step_up": "all"}
    send(press(slack.only(), "approve", user=ANN))
    assert "needs a sign-in" in texts(slack.views[-1])
    assert records() == []


def test_a_quorum_counts_each_person_once(
    start: Start, ann: User, channel: SlackChannel, slack: Slack, send: Send, make_user: MakeUser
) -> None:
    accounts.link(channel.workspace, "U0BOB", make_user("bob", "reviewer"))
    waiting(start, quorum=2)
    deliver()
    direct = {m["to"]: m for m in slack.messages.values()}
    assert "edit" not in buttons(direct[ANN])
    send(press(direct[ANN], "approve", user=ANN))
    deliver()
    direct = {m["to"]: m for m in slack.messages.values()}
    assert "1 of 2 approvals" in texts(direct["U0BOB"])
    send(press(direct[ANN], "approve", user=ANN))
    assert len(records()) == 1
    send(press(direct["C0REVIEWS"], "approve", user="U0BOB"))
    assert [name for name, _, _ in records()] == ["ann", "bob"]


def test_a_withdrawn_decision_brings_the_buttons_back(
    hold: Hold, ann: User, slack: Slack, send: Send, settings: Any
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "undo_seconds": 600}
    deliver()
    old = slack.only()
    send(press(old, "approve", user=ANN))
    deliver()
    assert buttons(slack.only()) == []
    withdrawal.withdraw(hold_id=hold.pk, user=ann, source="web")
    deliver()
    assert "approve" in buttons(slack.only())
    send(press(old, "approve", user=ANN))  # the press of before counts for nothing now
    standing = HumanReviewRecord.objects.standing()
    assert not standing.exists()


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_a_replayed_request_decides_nothing_after_an_undo(
    hold: Hold, ann: User, slack: Slack, send: Send, settings: Any, action: str
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "undo_seconds": 600}
    deliver()
    captured = press(slack.only(), action, user=ANN)
    if action == "reject":
        send(captured)
        captured = submission(slack.views[-1], {"comment": "no"}, user=ANN)
    send(captured)
    assert HumanReviewRecord.objects.standing().count() == 1
    withdrawal.withdraw(hold_id=hold.pk, user=ann, source="web")

    said = send(captured)
    assert not HumanReviewRecord.objects.standing().exists()
    shown = texts(slack.views[-1]) if action == "approve" else texts(said.json()["view"])
    assert "You have decided since this message was made" in shown

    deliver()
    assert send(press(slack.only(), "approve", user=ANN)).status_code == 200
    assert HumanReviewRecord.objects.standing().get().decision == "APPROVE"


def test_a_vote_leaves_the_buttons_of_others_as_they_are(
    start: Start, ann: User, channel: SlackChannel, slack: Slack, send: Send, make_user: MakeUser
) -> None:
    accounts.link(channel.workspace, "U0BOB", make_user("bob", "reviewer"))
    waiting(start, quorum=2)
    deliver()
    pressed = {
        each["to"]: press(each, "approve", user=user)
        for each in slack.messages.values()
        if (user := {ANN: ANN, "C0REVIEWS": "U0BOB"}.get(each["to"]))
    }
    send(pressed[ANN])
    send(pressed["C0REVIEWS"])
    assert [name for name, _, _ in records()] == ["ann", "bob"]


# --- who may press --------------------------------------------------------------------------------


def test_an_unlinked_account_is_asked_for_a_code(
    hold: Hold, ann: User, channel: SlackChannel, slack: Slack, send: Send, make_user: MakeUser
) -> None:
    bob = make_user("bob", "reviewer")
    deliver()
    message = next(m for m in slack.messages.values() if m["to"] == "C0REVIEWS")
    send(press(message, "approve", user="U0BOB"))
    view = slack.views[-1]
    assert view["callback_id"] == "link"
    assert records() == []
    code = accounts.create_code(bob)
    wrong = send(submission(view, {"code": "AAAAA-AAAAA"}, user="U0BOB")).json()
    assert "code" in wrong["errors"]
    linked = send(submission(view, {"code": f" {code.lower()} "}, user="U0BOB")).json()
    assert "decides as bob" in texts(linked["view"])
    assert LogEntry.objects.filter(user=bob).exists()
    stolen = send(submission(view, {"code": code}, user="U0EVE")).json()
    assert "code" in stolen["errors"]  # a code works once
    send(press(message, "approve", user="U0BOB"))
    assert records() == [("bob", "APPROVE", "slack")]


def test_an_account_enters_few_codes_in_a_time(
    ann: User, workspace: SlackWorkspace, make_user: MakeUser, monkeypatch: Any
) -> None:
    monkeypatch.setattr(throttling, "time", SimpleNamespace(time=lambda: 1e9))  # one window
    code = accounts.create_code(make_user("bob", "reviewer"))
    said = [interactions.link_command(workspace, "U0EVE", "AAAAA-AAAAA") for _ in range(10)]
    assert all("not valid any more" in each for each in said)
    assert "Too many codes" in interactions.link_command(workspace, "U0EVE", code)
    assert "decides as bob" in interactions.link_command(workspace, "U0BOB", code)


def test_an_old_code_and_the_code_of_a_disabled_person_link_nothing(
    workspace: SlackWorkspace, make_user: MakeUser
) -> None:
    bob = make_user("bob", "reviewer")
    for change in ("old", "password", "inactive"):
        code = accounts.create_code(bob)
        if change == "old":
            SlackLinkCode.objects.update(expires_at=Now() - timedelta(seconds=1))
        elif change == "password":
            bob.set_password("another long pass phrase")
            bob.save()
        else:
            bob.is_active = False
            bob.save()
        with pytest.raises(accounts.CodeInvalid):
            accounts.link_by_code(workspace, "U0BOB", code)
    assert not SlackAccount.objects.exists()


def test_a_new_password_ends_the_link(
    hold: Hold,
    start: Start,
    ann: User,
    workspace: SlackWorkspace,
    channel: SlackChannel,
    slack: Slack,
    send: Send,
) -> None:
    """A stolen session may have linked the account."""
    deliver()
    message = next(m for m in slack.messages.values() if m["to"] == "C0REVIEWS")
    assert len(slack.messages) == 2
    ann.set_password("another long pass phrase")
    ann.save()
    send(press(message, "approve", user=ANN))
    assert records() == []
    assert "your password has changed" in texts(slack.views[-1])
    waiting(start)
    deliver()
    assert [m["to"] for m in slack.messages.values()].count("C0REVIEWS") == 2
    assert len(slack.messages) == 3, "only the channel gets the next review"
    shown = open_page(ann, "/notifications/preferences/")
    assert "U0ANN in Pirates was linked before your password changed" in shown.text
    accounts.link_by_code(workspace, ANN, accounts.create_code(ann))
    send(press(message, "approve", user=ANN))
    assert records() == [("ann", "APPROVE", "slack")]


def test_the_command_links_too(workspace: SlackWorkspace, make_user: MakeUser) -> None:
    code = accounts.create_code(make_user("bob", "reviewer"))
    form = {"command": "/holdpoint", "text": code, "user_id": "U0BOB", "team_id": "T0PIRATES"}
    foreign = post_form({**form, "team_id": "T0OTHER"}, workspace)
    assert foreign.status_code == 400
    assert "decides as bob" in post_form(form, workspace).json()["text"]
    assert SlackAccount.objects.get().slack_user == "U0BOB"


@pytest.mark.parametrize("change", ["inactive", "group", "unlinked", "auditor"])
def test_a_press_counts_by_the_rights_of_this_moment(
    change: str, hold: Hold, ann: User, slack: Slack, send: Send, make_user: MakeUser
) -> None:
    deliver()
    if change == "inactive":
        ann.is_active = False
        ann.save()
    elif change == "group":
        ann.groups.clear()
    elif change == "unlinked":
        SlackAccount.objects.all().delete()
    else:
        ann.groups.set(make_user("aud", "auditor").groups.all())
    assert send(press(slack.calls[0][1] | {"ts": "1"}, "approve", user=ANN)).status_code == 200
    assert records() == []
    assert Hold.objects.get(pk=hold.pk).status == "OPEN"
    assert slack.views


def test_four_eyes_holds_and_is_recorded(
    start: Start, make_user: MakeUser, workspace: SlackWorkspace, channel: SlackChannel,
    slack: Slack, send: Send,
) -> None:  # fmt: skip
    starter = make_user("both", "operator", "reviewer")
    accounts.link(workspace, "U0BOTH", starter)
    only_hold(start(echo("a", phase=AFTER), actor=starter))
    deliver()
    assert all(m["to"] != "U0BOTH" for m in slack.messages.values())
    send(press(slack.only(), "approve", user="U0BOTH"))
    assert records() == []
    assert "started" in texts(slack.views[-1])
    assert DeniedAttempt.objects.get().source == "slack"


def test_people_of_another_workspace_press_nothing(hold: Hold, slack: Slack, send: Send) -> None:
    deliver()
    assert send(press(slack.only(), "approve", user=ANN, team="T0OTHER")).status_code == 400
    assert records() == []


# --- attacks on the requests ----------------------------------------------------------------------


def test_the_signature_of_slacks_example() -> None:
    found = signatures.signature_of(SECRET, "1531420618", EXAMPLE_BODY)
    assert found == EXAMPLE_SIGNATURE
    valid = ("1531420618", EXAMPLE_SIGNATURE, EXAMPLE_BODY)
    assert signatures.is_valid(SECRET, *valid, now=1531420618 + 299)
    for changed in (
        ("1531420619", EXAMPLE_SIGNATURE, EXAMPLE_BODY),
        ("1531420618", EXAMPLE_SIGNATURE[:-1] + "0", EXAMPLE_BODY),
        ("1531420618", EXAMPLE_SIGNATURE, EXAMPLE_BODY + b"x"),
        ("", "", b""),
        ("-1", EXAMPLE_SIGNATURE, EXAMPLE_BODY),
        ("1531420618", "v0=\u00e9", EXAMPLE_BODY),
    ):
        assert not signatures.is_valid(SECRET, *changed, now=1531420618)
    for late in (301, -301):
        assert not signatures.is_valid(SECRET, *valid, now=1531420618 + late)


def test_forged_and_old_requests_decide_nothing(hold: Hold, slack: Slack, send: Send) -> None:
    deliver()
    pressed = press(slack.only(), "approve", user=ANN)
    assert send(pressed, secret="another secret").status_code == 401
    assert send(pressed, at=time.time() - 301).status_code == 401
    assert send(pressed, at=time.time() + 400).status_code == 401
    SlackWorkspace.objects.update(enabled=False)
    assert send(pressed).status_code == 404
    assert records() == []


@pytest.mark.parametrize(
    "payload",
    [
        [], "x", {}, {"type": "block_actions"}, {"user": "U0ANN"},
        {"type": "view_submission", "user": {"id": ANN, "team_id": "T0PIRATES"}},
        {"type": "view_submission", "user": {"id": ANN, "team_id": "T0PIRATES"},
         "view": {"callback_id": "reject", "private_metadata": "{}"}},
        {"type": "view_submission", "user": {"id": ANN, "team_id": "T0PIRATES"},
         "view": {"callback_id": "reject", "private_metadata": '{"hold": "1", "shown": true}'}},
    ],
)  # fmt: skip
def test_other_payloads_are_400(payload: Any, ann: User, send: Send) -> None:
    assert send(payload).status_code == 400


def test_a_stale_press_updates_the_message(hold: Hold, slack: Slack, send: Send) -> None:
    deliver()
    old = slack.only()
    Hold.objects.filter(pk=hold.pk).update(payload={"other": 1})
    for action in ("approve", "reject"):
        send(press(old, action, user=ANN))
        assert records() == []
        assert "press the button again" in texts(slack.views[-1])
    deliver()
    send(press(slack.only(), "approve", user=ANN))
    assert records() == [("ann", "APPROVE", "slack")]


def test_other_events_of_the_run_do_not_end_a_button(hold: Hold, slack: Slack, send: Send) -> None:
    deliver()
    old = slack.only()
    message = AddMessage(role="user", content="more")
    submit_command(
        execution_id=hold.execution_id, command=message, actor=actor_named("o"), source="rest"
    )
    send(press(old, "approve", user=ANN))
    assert records() == [("ann", "APPROVE", "slack")]


def test_a_dialog_about_a_decided_review_says_who_decided(
    hold: Hold, slack: Slack, send: Send, reviewer2: User
) -> None:
    deliver()
    send(press(slack.only(), "reject", user=ANN))
    decide(hold, reviewer2)
    late = send(submission(slack.views[-1], {"comment": "no"}, user=ANN)).json()
    assert late["response_action"] == "update"
    assert "reviewer2 approved this" in texts(late["view"])
    assert len(records()) == 1


# --- the outbox -----------------------------------------------------------------------------------


def test_a_rate_limit_waits_as_long_as_slack_says(hold: Hold, slack: Slack) -> None:
    slack.faults.append((429, {"ok": False, "error": "ratelimited"}, {"Retry-After": "17"}))
    deliver()
    message = SlackMessage.objects.get()
    assert (message.status, message.attempts) == ("PENDING", 0)
    due = SlackMessage.objects.filter(next_at__gt=Now() + timedelta(seconds=10))
    assert due.filter(next_at__lt=Now() + timedelta(seconds=18)).exists()
    SlackMessage.objects.update(next_at=Now())
    deliver()
    assert len(slack.messages) == 1


def test_failures_are_retried_then_abandoned_and_shown(
    hold: Hold, slack: Slack, settings: Any, make_user: MakeUser
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "notice_max_attempts": 3}
    slack.faults += [
        (500, {}, {}),
        (200, {"ok": False, "error": "channel_not_found"}, {}),
        (200, {"ok": False, "error": "token_revoked"}, {}),
    ]
    assert deliver() == 3
    message = SlackMessage.objects.get()
    assert (message.status, message.error) == ("FAILED", "chat.postMessage: token_revoked")
    client = browser(make_user("root", "admin", is_staff=True, is_superuser=True))
    shown = client.get("/admin/reviews/slackmessage/").content.decode()
    assert "token_revoked" in shown
    assert "token_revoked" in client.get("/admin/reviews/slackworkspace/").content.decode()


def test_a_decision_during_the_post_still_updates_the_message(
    hold: Hold, slack: Slack, reviewer2: User
) -> None:
    def decided(method: str) -> None:
        slack.meanwhile = lambda _: None
        decide(hold, reviewer2)
        outbox.refresh(hold_ids=[hold.pk])
        connection.close()  # the one of the stand-in's thread

    slack.meanwhile = lambda method: decided(method) if method == "chat.postMessage" else None
    deliver()
    assert "reviewer2 approved this" in texts(slack.only())
    assert buttons(slack.only()) == []


def test_a_crash_after_posting_posts_again(hold: Hold, slack: Slack) -> None:
    def cut() -> None:
        raise RuntimeError("the power is gone")

    crashpoints.arm("slack_message.sent", cut)
    try:
        with pytest.raises(RuntimeError):
            deliver()
    finally:
        crashpoints.set_observer(None)
    assert sender.send_next() == 0  # under its lease
    SlackMessage.objects.update(next_at=Now())
    assert sender.send_next() == 1
    assert len(slack.messages) == 2


def test_people_choose_what_slack_sends(
    start: Start, ann: User, slack: Slack, workspace: SlackWorkspace
) -> None:
    save_preferences(user=ann, shown=KINDS, mailed=(), messaged=())
    waiting(start)
    assert deliver() == 0
    save_preferences(user=ann, shown=KINDS, mailed=(), messaged=["waiting"])
    waiting(start)
    assert deliver() == 1


def test_nothing_is_sent_about_what_the_person_may_not_see(
    hold: Hold, ann: User, slack: Slack
) -> None:
    from tests.integration.reviews.notifications.conftest import consume_journal

    consume_journal()
    ann.groups.clear()
    assert deliver() == 1
    assert not slack.messages
    assert SlackMessage.objects.get().status == "DROPPED"


def test_a_channel_gets_what_it_asks_for(
    start: Start, channel: SlackChannel, slack: Slack, make_user: MakeUser
) -> None:
    from tests.support.groups import group_of

    SlackChannel.objects.update(group=group_of("legal"))
    make_user("l", "legal")
    waiting(start)
    deliver()
    assert not slack.messages
    waiting(start, groups=["legal"])
    deliver()
    assert slack.only()["to"] == "C0REVIEWS"


# --- pages ----------------------------------------------------------------------------------------


def test_the_settings_link_and_unlink(
    ann: User, workspace: SlackWorkspace, make_user: MakeUser
) -> None:
    client = browser(ann)
    shown = open_page(ann, "/notifications/preferences/")
    assert "U0ANN in Pirates decides reviews as you." in shown.text
    made = client.post("/notifications/slack/code/")
    code = made.context["link_code"]
    assert made.status_code == 200
    assert code in made.content.decode()
    assert code not in client.get("/notifications/preferences/").content.decode()
    assert SlackLinkCode.objects.get().digest != code
    account = SlackAccount.objects.get()
    other = browser(make_user("eve", "reviewer"))
    assert other.post(f"/notifications/slack/{account.pk}/unlink/").status_code == 404
    kept = {"shown": ["waiting"], "mailed": [], "messaged": ["escalated"], "with_slack": "yes"}
    assert client.post("/notifications/preferences/", kept).status_code == 303
    ticked = open_page(ann, "/notifications/preferences/")
    assert ticked.attributes("[name=messaged][checked]", "value") == ["escalated"]
    assert client.post(f"/notifications/slack/{account.pk}/unlink/").status_code == 303
    assert not SlackAccount.objects.exists()


def test_without_a_workspace_the_settings_say_nothing(make_user: MakeUser) -> None:
    user = make_user("ann", "reviewer")
    assert "Slack" not in open_page(user, "/notifications/preferences/").text
    assert browser(user).post("/notifications/slack/code/").status_code == 404


def test_an_admin_connects_a_workspace(slack: Slack, make_user: MakeUser) -> None:
    client = browser(make_user("root", "admin", is_staff=True, is_superuser=True))
    url = "/admin/reviews/slackworkspace/add/"
    form = {
        "name": "Pirates", "team_id": "T0PIRATES", "enabled": "on",
        "new_bot_token": "xoxb-1-2-stand-in", "new_signing_secret": SECRET,
        "channels-TOTAL_FORMS": "1", "channels-INITIAL_FORMS": "0",
        "channels-0-channel": "C0REVIEWS", "channels-0-kinds": ["waiting"],
        "channels-0-enabled": "on",
    }  # fmt: skip
    assert client.post(url, {**form, "new_bot_token": ""}).status_code == 200
    assert not SlackWorkspace.objects.exists()
    assert client.post(url, form).status_code == 302
    workspace = SlackWorkspace.objects.get()
    shown = client.get(f"/admin/reviews/slackworkspace/{workspace.pk}/change/").content.decode()
    assert SECRET not in shown
    assert "xoxb" not in shown.replace("xoxb-. Stored", "")
    assert f"http://testserver/chat/slack/{workspace.pk}/" in shown
    check = {"action": "check_connection", "_selected_action": workspace.pk}
    checked = client.post("/admin/reviews/slackworkspace/", check, follow=True)
    assert "the token belongs to team T0PIRATES" in checked.content.decode()
    assert Execution.objects.count() == 0


def test_deleting_in_the_admin_ends_a_link_with_its_messages(
    hold: Hold, slack: Slack, make_user: MakeUser
) -> None:
    deliver()
    ensure_roles()
    client = browser(make_user("boss", "admin", is_staff=True))
    account = SlackAccount.objects.get()
    url = f"/admin/reviews/slackaccount/{account.pk}/delete/"
    assert client.post(url, {"post": "yes"}).status_code == 302
    assert not SlackAccount.objects.exists()
    assert not SlackMessage.objects.exists()
