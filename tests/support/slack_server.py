"""Slack on this machine: the methods of its Web API that the product calls, and signed requests.

It refuses blocks that Slack refuses, by the limits of the Block Kit reference.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from reviews.models import SlackWorkspace
from reviews.slack.signatures import signature_of
from tests.support.loopback import JSONHandler, serving
from workflows.common.secret_encryption import encrypt

TOKEN = "xoxb-1-2-stand-in"
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
TEAM = "T0PIRATES"
APP = "A0HOLDPOINT"


@dataclass
class Slack:
    """`faults` answer the next calls instead: (status, body, headers)."""

    url: str = ""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    views: list[dict[str, Any]] = field(default_factory=list)
    faults: list[tuple[int, dict[str, Any], dict[str, str]]] = field(default_factory=list)
    #: Called within a call, before its answer.
    meanwhile: Callable[[str], None] = lambda _: None

    def answer(self, method: str, token: str, body: dict[str, Any]) -> dict[str, Any]:
        self.calls.append((method, body))
        if token != f"Bearer {TOKEN}":
            return {"ok": False, "error": "invalid_auth"}
        if method == "auth.test":
            return {"ok": True, "team_id": TEAM, "team": "Pirates", "user_id": "U0BOT"}
        if method == "views.open":
            problem = "" if body.get("trigger_id") else "invalid_trigger_id"
            problem = problem or blocks_problem(body["view"]["blocks"], limit=100)
            if not problem:
                self.views.append(body["view"])
            return {"ok": not problem, "error": problem, "view": {"id": "V1"}}
        problem = blocks_problem(body["blocks"], limit=50)
        if problem:
            return {"ok": False, "error": problem}
        if method == "chat.postMessage":
            ts = f"{1_700_000_000 + len(self.messages)}.000100"
            direct = body["channel"].startswith("U")
            channel = f"D{body['channel'][1:]}" if direct else body["channel"]
            self.messages[ts] = {**body, "channel": channel, "to": body["channel"]}
            return {"ok": True, "channel": channel, "ts": ts}
        if method == "chat.update":
            old = self.messages.get(body["ts"])
            if old is None or old["channel"] != body["channel"]:
                return {"ok": False, "error": "message_not_found"}
            self.messages[body["ts"]] = {**old, **body}
            return {"ok": True, "channel": body["channel"], "ts": body["ts"]}
        return {"ok": False, "error": "unknown_method"}

    def only(self) -> dict[str, Any]:
        """The one message."""
        (message,) = self.messages.values()
        return message


def blocks_problem(blocks: list[dict[str, Any]], *, limit: int) -> str:
    """Return Slack's error code for blocks, "" if they are fine."""
    ids = [each["block_id"] for each in blocks if "block_id" in each]
    fine = 0 < len(blocks) <= limit and len(ids) == len(set(ids)) and all(map(_fits, blocks))
    return "" if fine else "invalid_blocks"


def _fits(block: dict[str, Any]) -> bool:
    if block["type"] == "section":
        return 0 < len(block["text"]["text"]) <= 3000
    if block["type"] == "context":
        return 0 < len(block["elements"]) <= 10
    if block["type"] == "actions":
        ids = [each["action_id"] for each in block["elements"]]
        return (
            0 < len(ids) <= 25
            and len(ids) == len(set(ids))
            and all(map(_button, block["elements"]))
        )
    if block["type"] == "input":
        return (
            len(block["block_id"]) <= 255
            and 0 < len(block["label"]["text"]) <= 2000
            and _element(block["element"])
        )
    return block["type"] == "rich_text" and bool(block["elements"])


def _button(element: dict[str, Any]) -> bool:
    return (
        0 < len(element["text"]["text"]) <= 75
        and len(element.get("value", "")) <= 2000
        and len(element.get("url", "")) <= 3000
    )


def _element(element: dict[str, Any]) -> bool:
    if element["type"] == "plain_text_input":
        return 0 < len(element.get("initial_value", "x")) <= 3000
    options = element["options"]
    return (
        element["type"] == "static_select"
        and 0 < len(options) <= 100
        and all(len(o["value"]) <= 150 and 0 < len(o["text"]["text"]) <= 75 for o in options)
        and ("initial_option" not in element or element["initial_option"] in options)
    )


class _Handler(JSONHandler):
    slack: Slack

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = self.path.removeprefix("/api/")
        self.slack.meanwhile(method)
        status = 200
        headers: dict[str, str] = {}
        if self.slack.faults:
            status, answer, headers = self.slack.faults.pop(0)
            self.slack.calls.append((method, body))
        else:
            answer = self.slack.answer(method, self.headers["Authorization"], body)
        self.send_json(status, answer, headers)


@contextmanager
def slack_on_loopback() -> Iterator[Slack]:
    """Slack on a free port of the loopback; `url` is the base address of its Web API."""
    slack = Slack()
    with serving(type("Handler", (_Handler,), {"slack": slack})) as address:
        slack.url = f"{address}api/"
        yield slack


def connect_workspace(**fields: Any) -> SlackWorkspace:
    """Connect the stand-in's workspace."""
    return SlackWorkspace.objects.create(
        name="Pirates",
        team_id=TEAM,
        bot_token=encrypt(TOKEN),
        signing_secret=encrypt(SECRET),
        **fields,
    )


# --- requests of Slack ----------------------------------------------------------------------------


def signed(
    form: dict[str, str], *, secret: str = SECRET, at: float | None = None
) -> tuple[bytes, dict[str, str]]:
    """Return body and headers of a request that Slack sends with this form."""
    body = urlencode(form).encode()
    timestamp = str(int(time.time() if at is None else at))
    return body, {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Slack-Request-Timestamp": timestamp,
        "X-Slack-Signature": signature_of(secret, timestamp, body),
    }


def press(
    message: dict[str, Any], action_id: str, *, user: str, team: str = TEAM
) -> dict[str, Any]:
    """Return the payload of a pressed button, in the shape of Slack's block_actions."""
    elements = [each for block in message["blocks"] for each in block.get("elements", ())]
    (button,) = [each for each in elements if each.get("action_id") == action_id]
    return {
        "type": "block_actions",
        "user": {"id": user, "username": "jack", "name": "jack", "team_id": team},
        "api_app_id": APP,
        "token": "deprecated",
        "container": {
            "type": "message",
            "message_ts": message.get("ts", ""),
            "channel_id": message["channel"],
            "is_ephemeral": False,
        },
        "trigger_id": "12321423423.333649436676.d8c1bb837935619ccad0f624c448ffb3",
        "team": {"id": TEAM, "domain": "pirates"},
        "enterprise": None,
        "is_enterprise_install": False,
        "channel": {"id": message["channel"], "name": "reviews"},
        "message": {"type": "message", "ts": message.get("ts", ""), "text": message["text"]},
        "state": {"values": {}},
        "response_url": "https://hooks.slack.com/actions/T0/1/x",
        "actions": [
            {
                "action_id": action_id,
                "block_id": "b1",
                "text": button["text"],
                "value": button.get("value", ""),
                "type": "button",
                "action_ts": "1548426417.840180",
            }
        ],
    }


def submission(
    view: dict[str, Any], values: dict[str, str], *, user: str, team: str = TEAM
) -> dict[str, Any]:
    """Return the payload of a submitted dialog; inputs that `values` does not name stay."""
    entered = {}
    for block in view["blocks"]:
        if block["type"] == "input":
            entered[block["block_id"]] = {"value": _entered(block, values)}
    return {
        "type": "view_submission",
        "team": {"id": TEAM, "domain": "pirates"},
        "user": {"id": user, "username": "jack", "name": "jack", "team_id": team},
        "api_app_id": APP,
        "token": "deprecated",
        "trigger_id": "12321423423.333649436676.d8c1bb837935619ccad0f624c448ffb3",
        "view": {
            "id": "VNHU13V36",
            "team_id": TEAM,
            "type": "modal",
            "callback_id": view["callback_id"],
            "private_metadata": view.get("private_metadata", ""),
            "hash": "1569362015.55b5e41b",
            "state": {"values": entered},
        },
        "response_urls": [],
    }


def _entered(block: dict[str, Any], values: dict[str, str]) -> dict[str, Any]:
    element, name = block["element"], block["block_id"]
    if element["type"] == "plain_text_input":
        text = values.get(name, element.get("initial_value", ""))
        return {"type": "plain_text_input", "value": text or None}
    chosen = element.get("initial_option")
    if name in values:
        (chosen,) = [o for o in element["options"] if o["value"] == values[name]]
    return {"type": "static_select", "selected_option": chosen}
