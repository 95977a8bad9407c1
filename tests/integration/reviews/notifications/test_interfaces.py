"""Notices over REST, pages, sockets and the admin: users see only their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection
from rest_framework.test import APIClient

from config.asgi import application
from reviews.models import ChatHook, Notice
from reviews.notifications import inbox
from tests.integration.reviews.conftest import MakeUser
from tests.integration.reviews.notifications.conftest import Wait, consume_journal
from tests.integration.reviews.sockets.test_sockets import Socket
from tests.support.pages import Page, browser, open_page
from tests.support.webhook_receiver import Receiver, receiving
from workflows.common.secret_encryption import decrypt
from workflows.models import Workflow
from workflows.permissions.tokens import create_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

API = "/api/v1/notifications/"


@pytest.fixture
def api(ann: User) -> APIClient:
    return bearer(ann)


def bearer(user: User, **more: Any) -> APIClient:
    _, text = create_token(user=user, name="t", scopes=["read", "run"], **more)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


def test_rest_lists_and_marks_own_notices(wait: Wait, api: APIClient, ann: User, bob: User) -> None:
    hold = wait()
    wait()
    consume_journal()
    rows = api.get(API).json()["results"]
    assert [each["kind"] for each in rows] == ["waiting", "waiting"]
    assert rows[1]["url"] == f"/review/{hold.execution_id}/{hold.pk}/"
    assert (rows[1]["execution_id"], rows[1]["hold_id"]) == (str(hold.execution_id), hold.pk)
    assert rows[1]["sentence"] == "Waits for you: echo will run in “Ad-hoc run”"
    others = list(Notice.objects.filter(user=bob).values_list("pk", flat=True))
    ids = [int(rows[0]["id"]), *others]
    assert api.post(f"{API}read/", {"ids": ids}).json() == {"marked": 1, "unread": 1}
    assert inbox.unread_count(bob) == 2
    assert len(api.get(f"{API}?unread=true").json()["results"]) == 1
    assert api.post(f"{API}read/", {"everything": True}).json() == {"marked": 1, "unread": 0}
    assert inbox.unread_count(bob) == 2


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"ids": ["x"]}, "ids[0]"),
        ({"ids": [0]}, "ids[0]"),
        ({"ids": [2**63]}, "ids[0]"),
        ({"ids": list(range(1, 202))}, "ids"),
        ({"all": True}, "all"),
    ],
)
def test_an_invalid_body_is_422_with_its_field(
    api: APIClient, body: dict[str, Any], path: str
) -> None:
    response = api.post(f"{API}read/", body)
    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == path


def test_an_unknown_parameter_is_named(api: APIClient) -> None:
    response = api.get(f"{API}?unreed=true")
    assert (response.status_code, response.json()["errors"][0]["path"]) == (422, "unreed")


def test_a_token_for_another_workflow_sees_no_notices(wait: Wait, ann: User) -> None:
    other = Workflow.objects.create(name="other", title="o", plan={"tasks": []})
    wait()
    consume_journal()
    assert bearer(ann, workflows=[other.name]).get(API).json()["results"] == []


def test_preferences_over_rest(api: APIClient) -> None:
    url = f"{API}preferences/"
    found = api.get(url).json()
    assert set(found["mailed"]) == {"reminder", "escalated"}
    assert len(found["shown"]) == 8
    wanted = {"shown": ["decided"], "mailed": []}
    assert api.put(url, wanted).json() == wanted
    assert api.get(url).json() == wanted
    assert api.put(url, {"shown": ["sms"], "mailed": []}).status_code == 422


def test_pages_show_notices_and_mark_them_read(wait: Wait, ann: User, bob: User) -> None:
    hold = wait()
    consume_journal()
    client = browser(ann)
    shown = open_page(ann, "/notifications/")
    assert "Waits for you: echo will run" in shown.text
    assert shown.texts("[data-bell-count]") == ["1"]
    client.get(f"/review/{hold.execution_id}/{hold.pk}/")  # whoever opens it has read of it
    assert (inbox.unread_count(ann), inbox.unread_count(bob)) == (0, 1)
    assert "No unread notifications" in open_page(ann, "/notifications/?show=unread").text
    other = Notice.objects.get(user=bob)
    assert client.post("/notifications/read/", {"notice": [other.pk]}).status_code == 303
    assert inbox.unread_count(bob) == 1
    assert browser(bob).post("/notifications/read/", {"everything": "yes"}).status_code == 303
    assert inbox.unread_count(bob) == 0
    assert client.get("/notifications/?cursor=nonsense").status_code == 404
    for odd in ("x", "-1", "9" * 30, "\u0661"):
        assert client.post("/notifications/read/", {"notice": odd}).status_code == 303


def test_an_empty_bell_says_so(ann: User) -> None:
    for path in ("/notifications/", "/notifications/bell/"):
        assert "No notifications yet" in open_page(ann, path).text


def test_preferences_are_saved(ann: User) -> None:
    client = browser(ann)
    kept = {"shown": ["waiting", "decided"], "mailed": ["decided", "sms"]}
    assert client.post("/notifications/preferences/", kept).status_code == 303
    shown = client.get("/notifications/preferences/")
    assert set(Page(shown).attributes("[name=shown][checked]", "value")) == {"waiting", "decided"}
    assert Page(shown).attributes("[name=mailed][checked]", "value") == ["decided"]
    assert shown.context["kinds"][0]["mailed"] is False


def test_a_socket_receives_only_own_notices(
    wait: Wait, ann: User, make_user: MakeUser, settings: Any
) -> None:
    stranger = make_user("out", "integrator")
    hold = wait()
    heard = listen(ann, stranger)
    assert heard["ann"] == [1, 0]
    assert heard["out"] == []
    assert hold.pk


@async_to_sync
async def listen(ann: User, stranger: User) -> dict[str, list[int]]:
    """What both hear while ann is told of a hold and then reads it."""
    sockets = {user.get_username(): await opened(user) for user in (ann, stranger)}
    await apart(consume_journal)
    found = {"ann": [await next_bell(sockets["ann"])], "out": []}
    await apart(inbox.mark_read, ann, everything=True)
    found["ann"].append(await next_bell(sockets["ann"]))
    # Whatever was for the stranger came before the answer to a ping.
    await sockets["out"].send_to(text_data='{"type": "ping"}')
    while (message := await sockets["out"].receive_json_from(timeout=30))["type"] != "pong":
        if message["type"] == "notices":
            found["out"].append(message["unread"])
    for each in sockets.values():
        await each.disconnect(timeout=10)
    return found


async def apart(function: Callable[..., object], *args: Any, **kwargs: Any) -> None:
    """In a thread of its own, whose connection ends with it."""

    def go() -> None:
        try:
            function(*args, **kwargs)
        finally:
            connection.close()

    await sync_to_async(go, thread_sensitive=False)()


async def opened(user: User) -> Socket:
    """A socket that is in its groups: it has answered a ping."""
    _, text = await sync_to_async(create_token)(user=user, name="s", scopes=["read"])
    headers = [(b"origin", b"http://testserver"), (b"authorization", f"Bearer {text}".encode())]
    socket = Socket(application, "/ws/reviews/", headers=headers)
    connected, _ = await socket.connect(timeout=30)
    assert connected
    await socket.send_to(text_data='{"type": "ping"}')
    while (await socket.receive_json_from(timeout=30))["type"] != "pong":
        pass
    return socket


async def next_bell(socket: Socket) -> int:
    while True:
        message = await socket.receive_json_from(timeout=30)
        if message["type"] == "notices":
            assert set(message) == {"type", "unread", "timestamp"}
            return int(message["unread"])


# --- the admin ------------------------------------------------------------------------------------


def test_chats_are_managed_in_the_admin(make_user: MakeUser) -> None:
    client = browser(make_user("root", "admin", is_staff=True, is_superuser=True))
    url = "/admin/reviews/chathook/add/"
    sent = {"name": "team", "format": "slack", "kinds": ["waiting"], "enabled": "on"}
    assert "Enter the address of the chat" in Page(client.post(url, sent)).text
    inside = client.post(url, {**sent, "address": "https://10.0.0.1/x"})
    assert "not a public host" in Page(inside).text
    with receiving(Receiver()) as receiver:
        assert client.post(url, {**sent, "address": receiver.url}).status_code == 302
        hook = ChatHook.objects.get()
        assert decrypt(hook.url) == receiver.url
        shown = Page(client.get(f"/admin/reviews/chathook/{hook.pk}/change/"))
        assert receiver.url not in shown.html
        assert hook.url not in shown.html
        test = {"action": "send_test", "_selected_action": hook.pk}
        answer = client.post("/admin/reviews/chathook/", test, follow=True)
        assert "team: test message sent." in Page(answer).text
        assert receiver.got[0].body["text"].startswith("Holdpoint can post to this channel")
    changed = {**sent, "name": "other", "address": ""}
    client.post(f"/admin/reviews/chathook/{hook.pk}/change/", changed)
    hook.refresh_from_db()
    assert (hook.name, decrypt(hook.url)) == ("other", receiver.url)
    assert client.get("/admin/reviews/noticemessage/").status_code == 200
