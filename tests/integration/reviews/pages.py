"""The decision page as a browser uses it."""

from __future__ import annotations

from typing import Any

from django.test import Client

from tests.support.pages import Page
from workflows.models import Hold


def review_path(hold: Hold) -> str:
    return f"/review/{hold.execution_id}/{hold.id}/"


def decision_fields(page: Page) -> dict[str, str]:
    """What the decision form sends before anybody changes a field."""
    return page.fields("[data-decision-form]")


def post_decision(client: Client, hold: Hold, **fields: str) -> Any:
    """Open the page of a hold, change `fields` and submit the form."""
    page = Page(client.get(review_path(hold)))
    return client.post(review_path(hold), {**decision_fields(page), **fields})
