"""A reviewer links a Slack account and approves a run from Slack; the desk shows it at once."""

from __future__ import annotations

import json
import urllib.request
from secrets import token_hex
from typing import Any

from playwright.sync_api import Page, expect

from tests.e2e.product import Product, running_product
from tests.e2e.test_bell import LATER, start
from tests.e2e.test_review import sign_in
from tests.support.processes import wait_for
from tests.support.slack_server import (
    SECRET,
    TEAM,
    TOKEN,
    Slack,
    press,
    signed,
    slack_on_loopback,
)

SETUP = f"""
from reviews.models import SlackWorkspace
from workflows.common.secret_encryption import encrypt
SlackWorkspace.objects.create(name="Pirates", team_id={TEAM!r}, bot_token=encrypt({TOKEN!r}),
    signing_secret=encrypt({SECRET!r}))
"""
REVIEWER = "U0REVIEWER"


def send(product: Product, form: dict[str, str]) -> Any:
    """Send a request of Slack to the product."""
    body, headers = signed(form)
    address = f"{product.address}/chat/slack/1/"
    request = urllib.request.Request(address, data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def message_about(slack: Slack, title: str) -> dict[str, Any] | None:
    """Reviews of the demo may open after the account is linked, and are sent too."""
    messages = list(slack.messages.values())
    return next((each for each in messages if title in json.dumps(each)), None)


def test_a_person_links_slack_and_approves_there(page: Page) -> None:
    with (
        slack_on_loopback() as slack,
        running_product(HOLDPOINT_SLACK_API_URL=slack.url, HOLDPOINT_UNDO_SECONDS="0") as product,
    ):
        product.command("shell", "-c", SETUP)
        sign_in(page, product, "reviewer")
        page.goto(f"{product.address}/notifications/preferences/")
        page.get_by_role("button", name="Link a Slack account").click()
        code = page.locator(".notice .mono").inner_text()
        command = {"command": "/holdpoint", "text": code, "user_id": REVIEWER, "team_id": TEAM}
        assert "decides as reviewer" in send(product, command)["text"]
        page.goto(f"{product.address}/notifications/preferences/")
        expect(page.get_by_text("U0REVIEWER in Pirates decides reviews as you.")).to_be_visible()
        expect(page.get_by_role("columnheader", name="In Slack")).to_be_visible()

        title = f"From Slack {token_hex(4)}"
        run = start(product, page, title, trigger_phase="AFTER_EXECUTION")
        message = wait_for(
            lambda: message_about(slack, title), seconds=LATER / 1000, what="a direct message"
        )
        assert message["to"] == REVIEWER
        page.goto(f"{product.address}/review/{run}/{run}-1/")
        expect(page.get_by_role("button", name="Approve")).to_be_enabled()
        send(product, {"payload": json.dumps(press(message, "approve", user=REVIEWER))})
        expect(page.get_by_text("reviewer approved this")).to_be_visible(timeout=LATER)
        wait_for(
            lambda: "reviewer approved this" in json.dumps(message_about(slack, title)),
            seconds=LATER / 1000,
            what="an updated message",
        )
