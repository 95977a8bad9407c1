"""A Slack workspace on this machine, with the account of a reviewer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from reviews.models import SlackChannel, SlackWorkspace
from reviews.slack import accounts, sender
from tests.integration.reviews.conftest import MakeUser
from tests.integration.reviews.notifications.conftest import consume_journal
from tests.support.slack_server import Slack, connect_workspace, signed, slack_on_loopback

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ANN = "U0ANN"
Send = Callable[..., Any]


@pytest.fixture
def slack(transactional_db: None, settings: Any) -> Iterator[Slack]:
    with slack_on_loopback() as found:
        settings.HOLDPOINT = {
            **settings.HOLDPOINT,
            "slack_api_url": found.url,
            "notice_backoff_seconds": 0,
            "undo_seconds": 0,
        }
        yield found


@pytest.fixture
def workspace(slack: Slack) -> SlackWorkspace:
    return connect_workspace()


@pytest.fixture
def ann(make_user: MakeUser, workspace: SlackWorkspace) -> User:
    """A reviewer who has linked a Slack account."""
    user = make_user("ann", "reviewer")
    accounts.link(workspace, ANN, user)
    return user


@pytest.fixture
def channel(workspace: SlackWorkspace) -> SlackChannel:
    return SlackChannel.objects.create(
        workspace=workspace, channel="C0REVIEWS", kinds=["waiting", "decided"], show_payload=True
    )


def deliver() -> int:
    """Read the journal, send what is due, and return the number of tries."""
    consume_journal()
    tries = 0
    while sender.send_next():
        tries += 1
    return tries


@pytest.fixture
def send(workspace: SlackWorkspace) -> Send:
    """Post a payload to the product as Slack does."""

    def post(payload: dict[str, Any], **signing: Any) -> Any:
        return post_form({"payload": json.dumps(payload)}, workspace, **signing)

    return post


def post_form(form: dict[str, str], workspace: SlackWorkspace, **signing: Any) -> Any:
    body, headers = signed(form, **signing)
    content_type = headers.pop("Content-Type")
    return Client(enforce_csrf_checks=True).post(
        f"/chat/slack/{workspace.pk}/", body, content_type=content_type, headers=headers
    )
