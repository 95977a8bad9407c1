"""Microsoft's services for a bot on this machine: keys, access tokens, the connector of Teams.

It refuses cards that Teams refuses, by the schema of Adaptive Cards 1.4 and the limits of Teams,
and makes requests to the bot as the connector does.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from reviews.models import TeamsBot
from tests.support.loopback import JSONHandler, serving
from workflows.common.secret_encryption import encrypt

APP = "7d5c1d0b-1f2a-4c3d-8e4f-0123456789ab"
TENANT = "a1b2c3d4-0000-4000-8000-00000000beef"
SECRET = "a~secret~of~the~stand-in"
ISSUER = "https://api.botframework.com"
ACCESS = "an-access-token-of-the-bot"

_ACTIONS = {"Action.Execute", "Action.OpenUrl", "Action.ShowCard"}
_ITEMS = {"RichTextBlock", "Container", "Input.Text", "Input.ChoiceSet"}


def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class Teams:
    """`faults` answer the next calls of the connector instead: (status, body, headers)."""

    url: str = ""
    key: rsa.RSAPrivateKey = field(default_factory=_key)
    key_id: str = "one"
    endorsements: list[str] = field(default_factory=lambda: ["webchat", "msteams"])
    calls: list[str] = field(default_factory=list)
    #: Messages by id, and the chat of each.
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    chats: dict[str, str] = field(default_factory=dict)
    faults: list[tuple[int, dict[str, Any], dict[str, str]]] = field(default_factory=list)

    @property
    def service_url(self) -> str:
        return f"{self.url}emea/"

    def settings(self) -> dict[str, str]:
        """The product's settings for this machine."""
        return {
            "teams_openid_url": f"{self.url}openid",
            "teams_login_url": f"{self.url}login/",
            "teams_service_url": self.url,
        }

    def rotate(self) -> None:
        """Sign with another key, which replaces the first."""
        self.key, self.key_id = _key(), f"{self.key_id}x"

    def sign(self, **claims: Any) -> str:
        """Return the token of a request; None as a value leaves a claim out."""
        now = int(time.time())
        content = {
            "iss": ISSUER, "aud": APP, "nbf": now, "exp": now + 3600,
            "serviceurl": self.service_url, **claims,
        }  # fmt: skip
        content = {name: value for name, value in content.items() if value is not None}
        return jwt.encode(content, self.key, algorithm="RS256", headers={"kid": self.key_id})

    def only(self) -> dict[str, Any]:
        """The card of the one message."""
        ((attachment,),) = (each["attachments"] for each in self.messages.values())
        return dict(attachment["content"])

    def texts(self) -> list[str]:
        """Messages without a card."""
        return [each["text"] for each in self.messages.values() if "text" in each]

    def answer(
        self, method: str, path: str, headers: Any, body: bytes
    ) -> tuple[int, dict[str, Any]]:
        self.calls.append(f"{method} {path}")
        if path == "/openid":
            return 200, {"issuer": ISSUER, "jwks_uri": f"{self.url}keys"}
        if path == "/keys":
            public = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
            endorsed = {"endorsements": self.endorsements}
            return 200, {"keys": [{**public, "kid": self.key_id, "use": "sig", **endorsed}]}
        if path == f"/login/{TENANT}/oauth2/v2.0/token":
            form = {name: value for name, (value,) in parse_qs(body.decode()).items()}
            expected = {
                "grant_type": "client_credentials", "client_id": APP, "client_secret": SECRET,
                "scope": "https://api.botframework.com/.default",
            }  # fmt: skip
            if form != expected:
                return 401, {"error": "invalid_client", "error_description": "wrong"}
            token = {"token_type": "Bearer", "expires_in": 3599, "access_token": ACCESS}
            return 200, token
        return self._connector(method, path, headers, json.loads(body))

    def _connector(
        self, method: str, path: str, headers: Any, activity: dict[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        if headers["Authorization"] != f"Bearer {ACCESS}":
            return 401, {"error": {"code": "Unauthorized", "message": "no"}}
        parts = path.removeprefix("/emea/v3/conversations/").split("/")
        chat = unquote(parts[0])
        problem = "" if "text" in activity else card_problem(activity)
        if problem:
            return 400, {"error": {"code": "BadSyntax", "message": problem}}
        if method == "POST" and parts[1:] == ["activities"]:
            name = f"1:{len(self.messages)}"
        elif method == "PUT" and parts[1] == "activities":
            name = unquote(parts[2])
            if self.chats.get(name) != chat:
                return 404, {"error": {"code": "ActivityNotFoundInConversation", "message": ""}}
        else:
            return 404, {"error": {"code": "ServiceError", "message": "Unknown"}}
        self.messages[name], self.chats[name] = activity, chat
        return 201 if method == "POST" else 200, {"id": name}


def card_problem(activity: dict[str, Any]) -> str:
    """Return why Teams refuses the message; "" if it is fine."""
    (attachment,) = activity["attachments"]
    card = attachment["content"]
    if attachment["contentType"] != "application/vnd.microsoft.card.adaptive":
        return "no card"
    if card["type"] != "AdaptiveCard" or card["version"] != "1.4":
        return "the version of the card"
    if len(json.dumps(activity, ensure_ascii=False).encode()) > 28_000:
        return "the card is too large"
    if len(card["actions"]) > 6:
        return "too many actions"
    ids = [each["id"] for each in elements(card) if "id" in each]
    if len(ids) != len(set(ids)):
        return "an id is used twice"
    unknown = {each["type"] for each in elements(card)} - _ITEMS - _ACTIONS
    return f"unknown elements {unknown}" if unknown else ""


def elements(card: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all items and actions of a card, also those of cards in it."""
    found = []
    for each in [*card["body"], *card.get("actions", ())]:
        found.append(each)
        if each["type"] == "Container":
            found += elements({"body": each["items"]})
        elif each["type"] == "Action.ShowCard":
            found += elements(each["card"])
    return found


class _Handler(JSONHandler):
    teams: Teams

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers: dict[str, str] = {}
        if self.teams.faults and "/v3/" in self.path:
            status, content, headers = self.teams.faults.pop(0)
        else:
            status, content = self.teams.answer(self.command, self.path, self.headers, body)
        self.send_json(status, content, headers)

    do_GET = do_POST = do_PUT = _answer


@contextmanager
def teams_on_loopback() -> Iterator[Teams]:
    """Microsoft's services on a free port of the loopback; `url` is their base address."""
    teams = Teams()
    with serving(type("Handler", (_Handler,), {"teams": teams})) as address:
        teams.url = address
        yield teams


def connect_bot(**fields: Any) -> TeamsBot:
    """Connect the stand-in's bot."""
    return TeamsBot.objects.create(
        name="Pirates", app_id=APP, tenant_id=TENANT, client_secret=encrypt(SECRET), **fields
    )


# --- requests of Teams ----------------------------------------------------------------------------


def activity_of(teams: Teams, kind: str, *, user: str, **fields: Any) -> dict[str, Any]:
    """Return an activity in the personal chat of a person, in the shape of the Bot Framework."""
    return {
        "type": kind,
        "id": "f:1",
        "timestamp": "2026-05-01T12:00:00.000Z",
        "serviceUrl": teams.service_url,
        "channelId": "msteams",
        "from": {"id": user, "name": "Ann Bonny", "aadObjectId": f"object-of-{user}"},
        "conversation": {"conversationType": "personal", "tenantId": TENANT, "id": f"a:{user}"},
        "recipient": {"id": f"28:{APP}", "name": "Holdpoint"},
        "channelData": {"tenant": {"id": TENANT}},
        "locale": "en-US",
        **fields,
    }


def press(
    teams: Teams, title: str, *, user: str, message: str = "1:0", **inputs: str
) -> dict[str, Any]:
    """Return the invoke of the button with this title; Teams adds the card's inputs to the data.

    Inputs that `inputs` does not name stay as they are in the card.
    """
    (attachment,) = teams.messages[message]["attachments"]
    card = attachment["content"]
    return invoke(teams, card, title, user=user, message=message, **inputs)


def invoke(
    teams: Teams, card: dict[str, Any], title: str, *, user: str, message: str, **inputs: str
) -> dict[str, Any]:
    """Return the invoke of a button of a card."""
    action, offered = _button(card, title)
    shown = {each["id"]: each.get("value", "") for each in offered}
    assert set(inputs) <= set(shown)
    value = {
        "action": {
            "type": "Action.Execute",
            "verb": action["verb"],
            "data": {**action.get("data", {}), **shown, **inputs},
        },
        "trigger": "manual",
    }
    name = "adaptiveCard/action"
    return activity_of(teams, "invoke", user=user, name=name, value=value, replyToId=message)


def _button(
    card: dict[str, Any], title: str, inherited: tuple[dict[str, Any], ...] = ()
) -> tuple[dict[str, Any], tuple[dict[str, Any], ...]]:
    inputs = (*inherited, *(each for each in card["body"] if each["type"].startswith("Input.")))
    for action in card["actions"]:
        if action["type"] == "Action.Execute" and action["title"] == title:
            return action, () if action.get("associatedInputs") == "none" else inputs
        if action["type"] == "Action.ShowCard":
            try:
                return _button(action["card"], title, inputs)
            except LookupError:
                continue
    raise LookupError(title)
