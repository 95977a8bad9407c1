"""Reviews in Teams by a bot: cards with buttons, decisions by their people, what is refused."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.db.models.functions import Now
from django.test import Client

from reviews.chat import accounts
from reviews.chat.accounts import TeamsIdentity
from reviews.chat.teams import sender, tokens
from reviews.models import DeniedAttempt, HumanReviewRecord, TeamsAccount, TeamsBot, TeamsMessage
from tests.integration.reviews.chat.test_slack import asked, records, waiting
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold
from tests.integration.reviews.notifications.conftest import consume_journal
from tests.support.pages import browser, open_page
from tests.support.teams_server import (
    APP,
    SECRET,
    TENANT,
    Teams,
    activity_of,
    connect_bot,
    elements,
    invoke,
    press,
    teams_on_loopback,
)
from workflows.api import throttling
from workflows.common import crashpoints
from workflows.models import Hold
from workflows.permissions.roles import ensure_roles

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ANN = "29:ann"
BOB = "29:bob"
Send = Callable[..., Any]


@pytest.fixture
def teams(transactional_db: None, settings: Any) -> Iterator[Teams]:
    with teams_on_loopback() as found:
        settings.HOLDPOINT = {
            **settings.HOLDPOINT,
            **found.settings(),
            "notice_backoff_seconds": 0,
            "undo_seconds": 0,
        }
        yield found


@pytest.fixture
def bot(teams: Teams) -> TeamsBot:
    return connect_bot()


@pytest.fixture
def ann(make_user: MakeUser, teams: Teams, bot: TeamsBot) -> User:
    """A reviewer who has linked a Teams account."""
    user = make_user("ann", "reviewer")
    link(teams, bot, user, ANN)
    return user


def link(teams: Teams, bot: TeamsBot, user: User, teams_user: str) -> TeamsAccount:
    identity = TeamsIdentity(teams_user, "Ann Bonny", f"a:{teams_user}", teams.service_url, True)
    return accounts.link_teams(bot, identity, user)


@pytest.fixture
def hold(start: Start, ann: User) -> Hold:
    return waiting(start)


@pytest.fixture
def send(teams: Teams, bot: TeamsBot) -> Send:
    """Post an activity to the product as the connector does."""

    def post(activity: Any, token: str | None = None) -> Any:
        return Client(enforce_csrf_checks=True).post(
            f"/chat/teams/{bot.pk}/",
            json.dumps(activity),
            content_type="application/json",
            headers={"Authorization": f"Bearer {token or teams.sign()}"},
        )

    return post


def deliver() -> int:
    consume_journal()
    tries = 0
    while sender.send_next():
        tries += 1
    return tries


def titles(card: dict[str, Any]) -> list[str]:
    return [each["title"] for each in card["actions"]]


def text_of(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False)


# --- cards and decisions --------------------------------------------------------------------------


def test_a_press_approves_once_and_the_card_says_who_decided(
    hold: Hold, teams: Teams, send: Send
) -> None:
    assert deliver() == 1
    assert teams.chats == {"1:0": f"a:{ANN}"}
    assert titles(teams.only()) == ["Approve", "Reject…", "Edit…", "Open in Holdpoint"]
    pressed = press(teams, "Approve", user=ANN)
    answer = send(pressed)
    assert answer.status_code == 200
    shown = answer.json()
    assert (shown["statusCode"], shown["type"]) == (200, "application/vnd.microsoft.card.adaptive")
    assert "ann approved this" in text_of(shown["value"])
    assert titles(shown["value"]) == ["Open in Holdpoint"]
    assert records() == [("ann", "APPROVE", "teams")]

    replayed = send(pressed).json()
    assert replayed["type"] == "application/vnd.microsoft.activity.message"
    assert "ann approved this" in replayed["value"]
    assert len(records()) == 1
    deliver()
    assert "ann approved this" in text_of(teams.only())
    assert titles(teams.only()) == ["Open in Holdpoint"]
    assert set(TeamsMessage.objects.values_list("status", flat=True)) == {"SENT"}


def test_a_rejection_needs_its_reason(hold: Hold, teams: Teams, send: Send) -> None:
    deliver()
    (reason,) = [each for each in elements(teams.only()) if each.get("id") == "reject_comment"]
    assert reason["isRequired"] is True
    refused = send(press(teams, "Reject", user=ANN)).json()
    assert "must give the reason" in refused["value"]
    assert records() == []
    done = send(press(teams, "Reject", user=ANN, reject_comment="not now")).json()
    assert "ann rejected this: not now" in text_of(done["value"])
    record = HumanReviewRecord.objects.get()
    assert (record.decision, record.comment, record.source) == ("REJECT", "not now", "teams")


def test_an_edit_is_what_the_agent_gets(
    operator: User, ann: User, teams: Teams, send: Send
) -> None:
    asked(operator, to="bob", amount=3, urgent=True, note={"text": "n"}, tags=["x"])
    deliver()
    assert "Pay invoice 4711" in text_of(teams.only())
    wrong = press(teams, "Approve with changes", user=ANN, **{"v:/amount": "many"})
    assert "amount" in send(wrong).json()["value"]
    assert records() == []
    changes = {"v:/to": "carol", "v:/amount": "4", "v:/urgent": "false", "v:/note/text": "m"}
    edit = press(teams, "Approve with changes", user=ANN, edit_comment="less", **changes)
    edit["value"]["action"]["data"]["v:/other"] = "a forged input"
    assert "approved this with" in text_of(send(edit).json()["value"])
    record = HumanReviewRecord.objects.get()
    assert (record.is_edited, record.source, record.comment) == (True, "teams", "less")
    assert record.modified_data == {
        "to": "carol", "amount": 4, "urgent": False, "note": {"text": "m"}, "tags": ["x"],
    }  # fmt: skip


def test_high_risk_and_what_does_not_fit_need_a_sign_in(
    operator: User, ann: User, start: Start, teams: Teams, send: Send, settings: Any
) -> None:
    asked(operator, more={"risk": "high"}, to="bob")
    waiting(start, "x" * 4000)
    waiting(start, ["line"] * 100)
    deliver()
    assert len(teams.messages) == 3
    for message in teams.messages.values():
        assert titles(message["attachments"][0]["content"]) == ["Open in Holdpoint"]
    small = waiting(start, "small")
    deliver()
    settings.HOLDPOINT = {**settings.HOLDPOINT, "step_up": "all"}
    answer = send(press(teams, "Approve", user=ANN, message="1:3")).json()
    assert answer["value"] == "This review needs a sign-in."
    assert Hold.objects.get(pk=small.pk).status == Hold.Status.OPEN
    assert records() == []


def test_secrets_are_masked_and_texts_stay_texts(
    operator: User, ann: User, teams: Teams, send: Send
) -> None:
    secret = "sk-live-4242424242424242abcdef"
    more = {"context": f"{secret} [click](https://evil.example) {{{{{{DATE(2020-01-01,SHORT)}}}}"}
    asked(operator, more=more, api_key=secret, text="t")
    deliver()
    shown = text_of(teams.messages)
    assert secret not in shown
    assert "{{DATE" not in shown
    kinds = {each["type"] for each in elements(teams.only()) if "click" in text_of(each)}
    assert kinds == {"RichTextBlock"}  # which interprets no Markdown
    send(press(teams, "Approve with changes", user=ANN, **{"v:/text": "u"}))
    assert HumanReviewRecord.objects.get().modified_data == {"api_key": secret, "text": "u"}


def test_a_stale_press_decides_nothing_and_updates_the_card(
    hold: Hold, teams: Teams, send: Send
) -> None:
    deliver()
    old = press(teams, "Approve", user=ANN)
    Hold.objects.filter(pk=hold.pk).update(payload={"other": 1})
    assert "press the button again" in send(old).json()["value"]
    assert records() == []
    deliver()
    send(press(teams, "Approve", user=ANN))
    assert records() == [("ann", "APPROVE", "teams")]


def test_a_review_that_expired_or_was_decided_says_so(
    hold: Hold, teams: Teams, send: Send, reviewer2: User
) -> None:
    deliver()
    late = press(teams, "Reject", user=ANN, reject_comment="no")
    decide(hold, reviewer2)
    assert "reviewer2 approved this" in send(late).json()["value"]
    assert len(records()) == 1


# --- who may press --------------------------------------------------------------------------------


def test_rights_are_those_of_the_moment_of_the_press(
    hold: Hold, ann: User, bot: TeamsBot, teams: Teams, send: Send, make_user: MakeUser
) -> None:
    link(teams, bot, make_user("eve", "integrator"), BOB)
    deliver()
    pressed = press(teams, "Approve", user=ANN)
    forwarded = {**pressed, "from": {"id": BOB, "name": "Eve"}}
    assert "may not see" in send(forwarded).json()["value"]
    ann.groups.clear()
    assert "may not see" in send(pressed).json()["value"]
    assert records() == []


def test_four_eyes_holds_and_is_recorded(
    start: Start, ann: User, bot: TeamsBot, teams: Teams, send: Send, make_user: MakeUser
) -> None:
    starter = make_user("both", "operator", "reviewer")
    link(teams, bot, starter, BOB)
    only_hold(start(echo("a", phase="AFTER_EXECUTION"), actor=starter))
    deliver()
    assert teams.chats == {"1:0": f"a:{ANN}"}
    answer = send(press(teams, "Approve", user=BOB)).json()
    assert "started" in answer["value"]
    assert records() == []
    assert DeniedAttempt.objects.get().source == "teams"


def test_an_account_is_linked_by_a_code_in_the_personal_chat(
    start: Start, bot: TeamsBot, teams: Teams, send: Send, make_user: MakeUser
) -> None:
    bob = make_user("bob", "reviewer")
    greeting = activity_of(teams, "installationUpdate", user=BOB, action="add")
    assert (send(greeting).status_code, send(greeting).content) == (200, b"")
    assert "notifications/preferences" in teams.texts()[0]
    code = accounts.create_code(bob)
    group = activity_of(teams, "message", user=BOB, text=code)
    group["conversation"]["conversationType"] = "groupChat"
    send(group)
    assert not TeamsAccount.objects.exists()
    said = activity_of(teams, "message", user=BOB, text=f" {code.lower()} ")
    send(said)
    assert "now decides as bob" in teams.texts()[-1]
    account = TeamsAccount.objects.get()
    assert (account.user, account.teams_user, account.conversation) == (bob, BOB, f"a:{BOB}")
    send({**said, "from": {"id": ANN}})  # the code is used
    assert "not valid any more" in teams.texts()[-1]
    assert TeamsAccount.objects.get().teams_user == BOB


def test_an_account_enters_few_codes_in_a_time(
    bot: TeamsBot, teams: Teams, send: Send, make_user: MakeUser, monkeypatch: Any
) -> None:
    monkeypatch.setattr(throttling, "time", SimpleNamespace(time=lambda: 1e9))  # one window
    code = accounts.create_code(make_user("bob", "reviewer"))
    wrong = activity_of(teams, "message", user=BOB, text="AAAAA-AAAAA")
    for _ in range(10):
        send(wrong)
    assert "not valid any more" in teams.texts()[-1]
    send({**wrong, "text": code})
    assert "Too many codes" in teams.texts()[-1]
    assert not TeamsAccount.objects.exists()
    send({**wrong, "text": code, "from": {"id": ANN}})  # another account
    assert "now decides as bob" in teams.texts()[-1]


def test_a_new_password_ends_the_link_and_the_card_asks_for_a_code(
    hold: Hold, ann: User, teams: Teams, send: Send
) -> None:
    deliver()
    ann.set_password("another long password")
    ann.save()
    answer = send(press(teams, "Approve", user=ANN)).json()
    assert records() == []
    assert "is not linked" in text_of(answer["value"])
    wrong = invoke(teams, answer["value"], "Link", user=ANN, message="1:0", code="AAAAA-BBBBB")
    assert "not valid any more" in send(wrong).json()["value"]
    code = accounts.create_code(ann)
    entered = invoke(teams, answer["value"], "Link", user=ANN, message="1:0", code=code)
    assert "now decides as ann" in text_of(send(entered).json()["value"])
    send(press(teams, "Approve", user=ANN))
    assert records() == [("ann", "APPROVE", "teams")]


def test_people_of_other_tenants_decide_nothing(hold: Hold, teams: Teams, send: Send) -> None:
    deliver()
    pressed = press(teams, "Approve", user=ANN)
    for change in (
        {"conversation": {**pressed["conversation"], "tenantId": "another"}},
        {"channelData": {"tenant": {"id": "another"}}},
        {"channelData": {}, "conversation": {"id": f"a:{ANN}", "conversationType": "personal"}},
    ):
        assert send({**pressed, **change}).status_code == 400
    assert records() == []


# --- tokens of requests ---------------------------------------------------------------------------


def refused_claims() -> dict[str, dict[str, Any]]:
    return {
        "another bot": {"aud": "another-app"},
        "no audience": {"aud": None},
        "another issuer": {"iss": "https://sts.windows.net/tenant/"},
        "expired": {"exp": int(time.time()) - 301},
        "without end": {"exp": None},
        "not yet": {"nbf": int(time.time()) + 400},
        "another serviceUrl": {"serviceurl": "https://smba.trafficmanager.net/amer/"},
        "no serviceUrl": {"serviceurl": None},
    }


@pytest.mark.parametrize("name", refused_claims())
def test_tokens_for_something_else_decide_nothing(
    name: str, hold: Hold, teams: Teams, send: Send
) -> None:
    deliver()
    pressed = press(teams, "Approve", user=ANN)
    assert send(pressed, teams.sign(**refused_claims()[name])).status_code == 403
    assert records() == []
    assert send(pressed, teams.sign(exp=int(time.time()) - 200)).status_code == 200  # clocks differ


def hs256(claims: dict[str, Any], public: str, headers: dict[str, str]) -> str:
    """A token whose secret is the connector's public key."""
    parts = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=")
        for each in ({"alg": "HS256", "typ": "JWT", **headers}, claims)
    ]
    signature = hmac.digest(public.encode(), b".".join(parts), "sha256")
    return b".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


def test_forged_tokens_decide_nothing(hold: Hold, bot: TeamsBot, teams: Teams, send: Send) -> None:
    deliver()
    pressed = press(teams, "Approve", user=ANN)
    claims = jwt.decode(teams.sign(), options={"verify_signature": False})
    public = jwt.algorithms.RSAAlgorithm.to_jwk(teams.key.public_key())
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    kid = {"kid": teams.key_id}
    forged = [
        jwt.encode(claims, other, algorithm="RS256", headers=kid),
        hs256(claims, public, kid),
        jwt.encode(claims, "", algorithm="none", headers=kid),
        jwt.encode(claims, teams.key, algorithm="RS512", headers=kid),
        jwt.encode(claims, teams.key, algorithm="RS256"),
        teams.sign()[:-8] + "AAAAAAAA",
        "not.a.token",
    ]
    for token in forged:
        assert send(pressed, token).status_code == 403, token
    client, url = Client(), f"/chat/teams/{bot.pk}/"
    for header in ("", "Bearer ", f"Basic {teams.sign()}"):
        answer = client.post(
            url, json.dumps(pressed), content_type="application/json",
            headers={"Authorization": header},
        )  # fmt: skip
        assert answer.status_code == 403
    assert send({**pressed, "channelId": "webchat"}).status_code == 403
    TeamsBot.objects.update(enabled=False)
    assert send(pressed).status_code == 404
    assert records() == []


def test_keys_are_those_of_teams_and_follow_a_rotation(
    hold: Hold, teams: Teams, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(tokens, "time", SimpleNamespace(monotonic=lambda: now))
    deliver()
    pressed = press(teams, "Approve", user=ANN)
    assert send(pressed).status_code == 200
    old = teams.sign()
    teams.rotate()
    for _ in range(3):
        assert send(pressed).status_code == 403  # the keys were read less than a minute ago
    assert teams.calls.count("GET /keys") == 1
    now += 61
    assert send(pressed, old).status_code == 200  # of a key that is still known
    assert send(pressed).status_code == 200
    assert teams.calls.count("GET /keys") == 2
    assert send(pressed, old).status_code == 403
    teams.endorsements = ["webchat"]
    now += 24 * 3600 + 1
    assert send(pressed).status_code == 403  # the key is of another channel
    assert teams.calls.count("GET /keys") == 3
    assert records() == [("ann", "APPROVE", "teams")]


def test_without_keys_nothing_is_decided(
    hold: Hold, teams: Teams, send: Send, settings: Any
) -> None:
    deliver()
    pressed = press(teams, "Approve", user=ANN)
    for address in (f"{teams.url}emea/v3/none", "http://192.0.2.1/openid"):
        settings.HOLDPOINT = {**settings.HOLDPOINT, "teams_openid_url": address}
        for _ in range(3):
            assert send(pressed).status_code == 503
    assert teams.calls.count("GET /emea/v3/none") == 1  # and not for each request of anybody
    assert records() == []


@pytest.mark.parametrize(
    "activity",
    [
        [], "x", {}, {"type": "invoke", "name": "composeExtension/query"},
        {"type": "invoke", "value": {}}, {"type": "invoke", "value": {"action": "x"}},
        {"type": "invoke", "value": {"action": {"verb": "approve"}}},
        {"type": "invoke", "value": {"action": {"verb": "approve",
                                                "data": {"hold": "h", "shown": True}}}},
        {"type": "invoke", "value": {"action": {"verb": "other", "data": {}}}},
        {"type": "message", "from": {"id": "x\0"}}, {"type": "message", "from": "x"},
        {"type": "message", "from": {"id": "\ud800"}},
        {"type": "invoke", "value": {"action": {"verb": "approve",
                                                "data": {"hold": "h\0", "shown": "1"}}}},
    ],
)  # fmt: skip
def test_other_activities_are_refused(activity: Any, ann: User, teams: Teams, send: Send) -> None:
    if isinstance(activity, dict) and activity:
        named = {"name": "adaptiveCard/action", **activity}
        activity = {**activity_of(teams, "invoke", user=ANN), **named}
    assert send(activity).status_code in (400, 403)
    assert records() == []


def test_events_that_need_no_answer_are_taken(ann: User, teams: Teams, send: Send) -> None:
    for kind in ("conversationUpdate", "messageReaction"):
        answer = send(activity_of(teams, kind, user=ANN))
        assert (answer.status_code, answer.content) == (200, b"")
    assert teams.messages == {}


# --- the outbox -----------------------------------------------------------------------------------


def test_the_bots_token_goes_only_to_connectors(
    hold: Hold, teams: Teams, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    TeamsAccount.objects.update(service_url="https://evil.example/emea/")
    deliver()
    assert "is not below" in TeamsMessage.objects.get().error
    for address in ("http://smba.example/", "http://10.0.0.1/"):
        settings.HOLDPOINT = {**settings.HOLDPOINT, "teams_service_url": address}
        TeamsAccount.objects.update(service_url=f"{address}emea/")
        TeamsMessage.objects.update(status="PENDING", next_at=Now())
        assert sender.send_next() == 1
        assert "must begin with https://" in TeamsMessage.objects.get().error
    assert not [each for each in teams.calls if "/v3/" in each]


def test_a_rate_limit_waits_as_long_as_teams_says(hold: Hold, teams: Teams) -> None:
    teams.faults.append((429, {"error": {"code": "TooManyRequests"}}, {"Retry-After": "17"}))
    deliver()
    message = TeamsMessage.objects.get()
    assert (message.status, message.attempts) == ("PENDING", 0)
    due = TeamsMessage.objects.filter(next_at__gt=Now() + timedelta(seconds=10))
    assert due.filter(next_at__lt=Now() + timedelta(seconds=18)).exists()
    TeamsMessage.objects.update(next_at=Now())
    deliver()
    assert len(teams.messages) == 1


def test_failures_are_retried_then_abandoned_and_shown(
    hold: Hold, teams: Teams, settings: Any, make_user: MakeUser
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "notice_max_attempts": 2}
    gone = {"error": {"code": "BotNotInConversationRoster", "message": "gone"}}
    teams.faults += [(401, {}, {}), (403, gone, {})]
    deliver()
    message = TeamsMessage.objects.get()
    assert message.status == "FAILED"
    assert message.error.endswith("HTTP 403 BotNotInConversationRoster")
    logins = [each for each in teams.calls if "/login/" in each]
    assert len(logins) == 2  # a refused token is not used again
    client = browser(make_user("root", "admin", is_staff=True, is_superuser=True))
    for page in ("teamsmessage", "teamsbot"):
        assert "BotNotInConversation" in client.get(f"/admin/reviews/{page}/").content.decode()


def test_a_crash_after_posting_posts_again(hold: Hold, teams: Teams) -> None:
    def cut() -> None:
        raise RuntimeError("the power is gone")

    crashpoints.arm("teams_message.sent", cut)
    try:
        with pytest.raises(RuntimeError):
            deliver()
    finally:
        crashpoints.set_observer(None)
    assert sender.send_next() == 0  # under its lease
    TeamsMessage.objects.update(next_at=Now())
    assert sender.send_next() == 1
    assert len(teams.messages) == 2


def test_nothing_is_sent_about_what_the_person_may_not_see(
    hold: Hold, ann: User, teams: Teams
) -> None:
    consume_journal()
    ann.groups.clear()
    assert deliver() == 1
    assert not teams.messages
    assert TeamsMessage.objects.get().status == "DROPPED"


# --- pages ----------------------------------------------------------------------------------------


def test_the_settings_link_and_unlink(ann: User, bot: TeamsBot, make_user: MakeUser) -> None:
    client = browser(ann)
    shown = open_page(ann, "/notifications/preferences/")
    assert f"Ann Bonny ({ANN}) with the Teams bot Pirates decides reviews as you." in shown.text
    assert "In Teams" in shown.text
    assert "Slack" not in shown.text
    made = client.post("/notifications/slack/code/")
    assert made.context["link_code"] in made.content.decode()
    account = TeamsAccount.objects.get()
    other = browser(make_user("eve", "reviewer"))
    assert other.post(f"/notifications/teams/{account.pk}/unlink/").status_code == 404
    assert client.post(f"/notifications/teams/{account.pk}/unlink/").status_code == 303
    assert not TeamsAccount.objects.exists()


def test_an_admin_connects_a_bot(teams: Teams, make_user: MakeUser) -> None:
    client = browser(make_user("root", "admin", is_staff=True, is_superuser=True))
    url = "/admin/reviews/teamsbot/add/"
    form = {
        "name": "Pirates", "app_id": APP, "tenant_id": TENANT, "enabled": "on",
        "new_client_secret": SECRET,
    }  # fmt: skip
    for wrong in ({"new_client_secret": ""}, {"tenant_id": "../common"}, {"app_id": "x"}):
        assert client.post(url, {**form, **wrong}).status_code == 200
    assert not TeamsBot.objects.exists()
    assert client.post(url, form).status_code == 302
    bot = TeamsBot.objects.get()
    shown = client.get(f"/admin/reviews/teamsbot/{bot.pk}/change/").content.decode()
    assert SECRET not in shown
    assert f"http://testserver/chat/teams/{bot.pk}/" in shown
    check = {"action": "check_connection", "_selected_action": bot.pk}
    checked = client.post("/admin/reviews/teamsbot/", check, follow=True)
    assert "Pirates: the secret is valid." in checked.content.decode()
    assert (
        client.post(
            f"/admin/reviews/teamsbot/{bot.pk}/change/", {**form, "new_client_secret": "wrong"}
        ).status_code
        == 302
    )
    checked = client.post("/admin/reviews/teamsbot/", check, follow=True)
    assert "invalid_client" in checked.content.decode()


def test_deleting_in_the_admin_ends_a_link_with_its_messages(
    hold: Hold, teams: Teams, make_user: MakeUser
) -> None:
    deliver()
    ensure_roles()
    client = browser(make_user("boss", "admin", is_staff=True))
    url = f"/admin/reviews/teamsaccount/{TeamsAccount.objects.get().pk}/delete/"
    assert client.post(url, {"post": "yes"}).status_code == 302
    assert not TeamsAccount.objects.exists()
    assert not TeamsMessage.objects.exists()
