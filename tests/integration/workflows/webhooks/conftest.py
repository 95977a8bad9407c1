"""An engine, a receiver, and a sender that goes round by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import Max

from tests.integration.workflows.conftest import Engine, value
from tests.support.catalogue import stock_catalogue
from tests.support.groups import group_of
from tests.support.processes import wait_for
from tests.support.webhook_receiver import Receiver, receiving
from workflows.executions.services import start_execution
from workflows.models import Execution, ExecutionEvent, WebhookDelivery, WebhookEndpoint
from workflows.webhooks.sender import Sender
from workflows.webhooks.services import create_endpoint

Register = Callable[..., tuple[WebhookEndpoint, str]]


@pytest.fixture
def engine(
    transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> Engine:
    """Short times, the loopback allowed."""
    monkeypatch.setenv("HOLDPOINT_TEST_LEDGER", str(tmp_path / "ledger.jsonl"))
    settings.HOLDPOINT = {
        **settings.HOLDPOINT,
        "webhook_allow_loopback": True,
        "webhook_poll_seconds": 0.02,
        "webhook_backoff_seconds": 0.01,
        "webhook_max_backoff_seconds": 0.05,
        "webhook_timeout_seconds": 5.0,
    }
    stock_catalogue()
    return Engine()


@pytest.fixture
def owner(engine: Engine) -> User:
    """An operator: sees every execution."""
    return person("operator")


def person(role: str) -> User:
    user = User.objects.create_user(role)
    user.groups.add(group_of(role))
    return user


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving(Receiver()) as found:
        yield found


@pytest.fixture
def register(owner: User, receiver: Receiver) -> Register:
    """An endpoint of the owner (or of `owner=`) and its secret."""

    def make(**fields: Any) -> tuple[WebhookEndpoint, str]:
        whose = fields.pop("owner", owner)
        return create_endpoint(owner=whose, fields={"name": "e", "url": receiver.url, **fields})

    return make


@pytest.fixture
def sender(engine: Engine) -> Iterator[Sender]:
    made = Sender(threading.Event())
    yield made
    made._end()


def send_all(sender: Sender) -> None:
    """Rounds until nothing waits and nothing flies."""

    def settled() -> bool:
        sender.round()
        waiting = WebhookDelivery.objects.filter(status="PENDING", endpoint__parked_at=None)
        newest = ExecutionEvent.objects.aggregate(newest=Max("pk"))["newest"] or 0
        behind = [e for e in sender._endpoints() if e.cursor < newest]
        return not sender._in_flight and not behind and not waiting.exists()

    sender._claimed_at = float("-inf")  # what changed since the last claim counts at once
    wait_for(settled, seconds=30, what="everything sent")


def run(engine: Engine, owner: User | None = None, **more: Any) -> Execution:
    """Two layers, one task each, to the end."""
    plan = {"tasks": [value("a"), value("b", {"$from": "a"})]}
    execution = start_execution(actor=owner, plan=plan, **more)
    return engine.drive(execution)
