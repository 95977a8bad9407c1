"""Helpers of browser tests of the pages: start a run of a plan, and wait until it stops."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page

from tests.e2e.product import Product
from tests.e2e.test_review import Api

SECONDS = 60


def note_errors(page: Page, found: list[str]) -> None:
    """Add the errors that no script of the page catches to `found`.

    htmx rejects a request without a reason when its page is left meanwhile; that is no error.
    """
    page.on("pageerror", lambda e: found.append(str(e)) if str(e) != "undefined" else None)


def echo(name: str, value: Any, phase: str = "", **review: Any) -> dict[str, Any]:
    """A `builtin.echo` task; with a phase it waits for the reviewers."""
    task = {"id": name, "type": "tool", "tool": "builtin.echo", "arguments": {"value": value}}
    if phase:
        review = {"trigger_phase": phase, "on_timeout": "keep_waiting", **review}
        task["human_review"] = review
    return task


def started(api: Api, *tasks: dict[str, Any], **more: Any) -> str:
    """A new run of these tasks; its number, once it waits for somebody."""
    status, run = api("executions/", {"plan": {"tasks": list(tasks)}, **more})
    assert status == 201, run
    until(api, run["id"], "PAUSED_FOR_REVIEW")
    return str(run["id"])


def until(api: Api, run: str, *statuses: str) -> dict[str, Any]:
    """The run once it has one of these statuses."""
    return until_it(api, run, lambda found: found["status"] in statuses)


def until_open(api: Api, run: str, hold: str) -> dict[str, Any]:
    """The run once this hold of it is open."""
    wanted = (hold, "OPEN")
    until_it(
        api, run, lambda found: wanted in [(each["id"], each["status"]) for each in found["holds"]]
    )
    # Holds are read a moment after their run: the next answer has both as they are now.
    return until_it(api, run, lambda found: True)


def until_it(api: Api, run: str, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The run, as the API tells it, once that is so."""
    deadline = time.monotonic() + SECONDS
    while True:
        code, found = api(f"executions/{run}/")
        assert code == 200, found
        if is_so(found):
            return dict(found)
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def answer_link(product: Product, hold_id: str) -> str:
    """The path of the link that an e-mail about the review would have."""
    return product.manage(
        "shell",
        "--no-imports",
        "-c",
        "from django.contrib.auth.models import User\n"
        "from reviews.answer_links.services import path_for\n"
        "from workflows.models import Hold\n"
        f"hold = Hold.objects.select_related('execution').get(pk={hold_id!r})\n"
        "print(path_for(User.objects.get(username='reviewer'), hold))",
    ).strip()
