"""Runs that wait, users with e-mail addresses, and a journal that is read by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from reviews.models import Notice
from reviews.notifications import journal_consumer
from tests.integration.reviews.conftest import MakeUser, Start, echo, only_hold
from workflows.journal.event_log import ReadWatermark
from workflows.models import ExecutionEvent, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

BEFORE = "BEFORE_EXECUTION"
Wait = Callable[..., Hold]


@pytest.fixture(autouse=True)
def _at_once(transactional_db: None, settings: Any) -> None:
    """Make messages due as soon as they are stored."""
    settings.HOLDPOINT = {
        **settings.HOLDPOINT,
        "notice_gather_seconds": 0,
        "notice_pause_seconds": 0,
        "notice_backoff_seconds": 0,
        "webhook_allow_loopback": True,
        "webhook_timeout_seconds": 5.0,
    }


@pytest.fixture
def ann(make_user: MakeUser) -> User:
    return make_user("ann", "reviewer", email="ann@example.com")


@pytest.fixture
def bob(make_user: MakeUser) -> User:
    return make_user("bob", "reviewer", email="bob@example.com")


@pytest.fixture
def wait(start: Start) -> Wait:
    """A run of the operator's that waits before its only task."""

    def go(**review: Any) -> Hold:
        actor = {"actor": review.pop("actor")} if "actor" in review else {}
        policy = {"on_timeout": "keep_waiting", **review}
        return only_hold(start(echo("a", phase=BEFORE, **policy), **actor))

    return go


def consume_journal() -> None:
    """Read the journal to its end."""
    newest = ExecutionEvent.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    watermark = ReadWatermark()
    while watermark.advance(patience=10) < newest:
        pass
    while journal_consumer.read_new(watermark):
        pass


def notice_kinds(user: User, *, unread: bool = False) -> list[str]:
    """Kinds of the person's notices, oldest first."""
    rows = Notice.objects.filter(user=user).order_by("pk")
    rows = rows.filter(read_at=None) if unread else rows
    return list(rows.values_list("kind", flat=True))
