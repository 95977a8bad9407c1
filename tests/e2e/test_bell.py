"""An undecided review is escalated: another group's bell rings, and a member decides."""

from __future__ import annotations

import json
import re
from email import message_from_bytes, policy
from pathlib import Path
from secrets import token_hex
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in, wait_for_pause
from tests.support.processes import wait_for
from tests.support.webhook_receiver import Receiver, receiving

#: ms until what the sweeper does has to be there, on a machine that is busy.
LATER = 90_000
PAYLOAD = "not for a mail"
SETUP = """
from django.contrib.auth.models import Group
from reviews.models import ChatHook
from workflows.common.secret_encryption import encrypt
legal, _ = Group.objects.get_or_create(name="legal")
from django.contrib.auth import get_user_model
user = get_user_model().objects.get(username="integrator")
user.groups.add(legal)
ChatHook.objects.update_or_create(
    name="e2e", defaults={{"url": encrypt({url!r}), "group": legal, "kinds": ["escalated"]}})
"""


def start(product: Product, page: Page, title: str, **review: Any) -> str:
    """A run of the operator's that waits before its only task; its number."""
    api = Api(product, "operator", "read,run")
    task = {
        "id": "a",
        "type": "tool",
        "tool": "builtin.echo",
        "arguments": {"value": PAYLOAD},
        "human_review": {"on_timeout": "keep_waiting", **review},
    }
    status, answer = api("executions/", {"title": title, "plan": {"tasks": [task]}})
    assert status == 201, answer
    run = str(answer["id"])
    wait_for_pause(api, run, "a", page)
    return run


def bell(page: Page) -> Any:
    return page.locator("[data-bell] > summary")


def mails_about(product: Product, words: str) -> list[Any]:
    """The same, once there is any."""
    wait_for(lambda: mails(product, words), seconds=LATER / 1000, what=f"a mail about {words}")
    return mails(product, words)


def mails(product: Product, words: str) -> list[Any]:
    """What the file backend wrote that speaks of `words`."""
    found = []
    for path in sorted((Path(product.home) / "mail").glob("*.log")):
        # Behind the last line of dashes is a message of which only a part may be written.
        for part in path.read_bytes().split(b"-" * 79 + b"\n")[:-1]:
            message = message_from_bytes(part, policy=policy.default)
            if words in str(message["Subject"]):
                found.append(message)
    return found


def test_a_review_escalates_to_another_group_whose_person_decides(
    page: Page, product: Product, browser: Browser
) -> None:
    with receiving(Receiver()) as receiver:
        product.command("shell", "-c", SETUP.format(url=receiver.url))
        sign_in(page, product, "reviewer")
        lawyer = browser.new_context().new_page()
        sign_in(lawyer, product, "integrator")
        expect(lawyer.get_by_text("live", exact=True)).to_be_visible()
        lawyer.evaluate("window.notReloaded = true")
        before = count(lawyer)
        title = f"Escalates {token_hex(4)}"
        step = {"after_seconds": 2, "groups": ["legal"]}
        run = start(product, page, title, escalation=[step])

        # The bell rings without a reload, and says so to those who listen.
        badge = bell(lawyer).locator("[data-bell-count]")
        expect(badge).not_to_have_text(str(before), timeout=LATER)
        expect(badge).to_be_visible()
        expect(lawyer.locator("#announce")).to_have_text(re.compile(r"unread notification"))
        assert lawyer.evaluate("window.notReloaded")
        # The chat and the mail have the link and not the payload.
        link = f"{product.address}/review/{run}/{run}-1/"
        wait_for(lambda: receiver.got, seconds=LATER / 1000, what="a post to the chat")
        told = json.dumps(receiver.got[0].body)
        assert link in told
        assert PAYLOAD not in told
        (mail,) = mails_about(product, title)
        assert (mail["To"], PAYLOAD in mail.as_string()) == ("integrator@holdpoint.invalid", False)
        assert link in mail.get_body(("plain",)).get_content()

        bell(lawyer).focus()
        lawyer.keyboard.press("Enter")
        row = lawyer.get_by_role("link", name=re.compile(f"Escalated to you: .*{title}"))
        expect(row).to_be_visible(timeout=LATER)
        row.focus()
        lawyer.keyboard.press("Escape")
        expect(row).to_be_hidden()
        expect(bell(lawyer)).to_be_focused()
        lawyer.keyboard.press("Enter")
        row.click()
        lawyer.wait_for_url(f"**/review/{run}/{run}-1/")
        approve = lawyer.get_by_role("button", name="Approve")
        expect(approve).to_be_enabled()
        approve.click()
        expect(lawyer.get_by_text("integrator approved this")).to_be_visible(timeout=LATER)
        lawyer.context.close()
        page.goto(f"{product.address}/runs/{run}/")
        expect(page.get_by_text("the legal group can also decide").first).to_be_visible()


def count(page: Page) -> int:
    shown = bell(page).locator("[data-bell-count]")
    return int(shown.inner_text()) if shown.is_visible() else 0


def test_a_reminder_is_mailed_and_rings(page: Page, product: Product) -> None:
    sign_in(page, product, "reviewer")
    page.set_viewport_size({"width": 390, "height": 844})
    title = f"Reminds once {token_hex(4)}"
    run = start(product, page, title, reminders=[{"after_seconds": 2}])
    page.goto(f"{product.address}/runs/{run}/")
    bell(page).click()
    expect(
        page.get_by_role("link", name=re.compile(f"Still waits for you: .*{title}"))
    ).to_be_visible(timeout=LATER)
    for mail in mails_about(product, title):
        assert f"{product.address}/review/{run}/{run}-1/" in mail.get_body(("plain",)).get_content()
        assert PAYLOAD not in mail.as_string()
    page.get_by_role("button", name="Mark all as read").click()
    expect(page.locator("[data-bell-count]")).to_be_hidden()
