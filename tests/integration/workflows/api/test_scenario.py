"""A scenario with every operation of the API; `make examples` records its responses.

The examples of the OpenAPI document come from here, so they are what the API answers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker

from tests.integration.reviews.notifications.conftest import consume_journal
from tests.integration.workflows.api.normalization import steady
from tests.integration.workflows.api.recorder import JSON, Recorder, write
from tests.integration.workflows.api.scenario import Story
from tests.integration.workflows.webhooks.conftest import send_all
from tests.support.webhook_receiver import Receiver, receiving
from workflows.api.examples import RECORDED_IN, _recorded
from workflows.webhooks.sender import Sender

#: Set by `make examples`.
RECORD = bool(os.environ.get("HOLDPOINT_RECORD_EXAMPLES"))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving(Receiver()) as found:
        yield found


@pytest.fixture
def recorded(
    transactional_db: None, catalogue: None, bearer: Any, receiver: Receiver, settings: Any,
    tmp_path: Any,
) -> Recorder:  # fmt: skip
    settings.HOLDPOINT = {
        **settings.HOLDPOINT,
        "sandbox_root": tmp_path / "sandbox",
        "webhook_allow_loopback": True,
        "webhook_poll_seconds": 0.02,
        "webhook_timeout_seconds": 5.0,
    }
    sender = Sender(threading.Event())
    try:
        clients = {role: bearer(role) for role in ("operator", "reviewer", "admin")}
        return Story(
            clients=clients,
            receiver=receiver,
            send=lambda: send_all(sender),
            notice=consume_journal,
        ).tell()
    finally:
        sender._end()


def test_the_story_uses_every_operation_and_the_examples_are_of_it(recorded: Recorder) -> None:
    assert recorded.taken.keys() == recorded.operations.keys()
    examples = recorded.examples()
    answered = {name: set(each["responses"]) for name, each in examples.items()}
    assert answered == recorded.wanted()
    for name, example in examples.items():
        for status, value in example["responses"].items():
            fits(recorded.document, recorded.operations[name][2]["responses"][status], value)
    if RECORD:
        write(examples, RECORDED_IN)
        _recorded.cache_clear()
    assert parts(_recorded()) == parts(examples), "the examples are old: run `make examples`"


def fits(document: dict[str, Any], answer: dict[str, Any], value: Any) -> None:
    schema = {**answer["content"][JSON]["schema"], "components": document["components"]}
    validator = Draft202012Validator(schema, format_checker=FormatChecker())
    assert not [(list(e.absolute_path), e.message) for e in validator.iter_errors(value)]


def parts(examples: dict[str, Any]) -> dict[str, set[str]]:
    """Which requests and answers there are."""
    return {
        name: {*each.get("responses", ()), *(["request"] if "request" in each else [])}
        for name, each in examples.items()
    }


def test_varying_values_are_normalized() -> None:
    one = {
        "created_at": "2026-11-21T23:48:22.100001Z",
        "expires_at": "2026-11-21T23:58:22.000000Z",
        "timestamp": 1795304902200,
        "next": "http://testserver/api/v1/tokens/?cursor=cD0y",
        "duration_ms": 63.4,
        "token": "hp_abcdefgh_" + "Az-_0" * 8 + "xyz",
        "error": "",
    }
    assert steady(one) == {
        "created_at": "2026-03-02T09:00:00Z",
        "timestamp": 1772442001000,
        "expires_at": "2026-03-02T09:10:01Z",
        "next": "https://holdpoint.example.com/api/v1/tokens/?cursor=cD0y",
        "duration_ms": 12.5,
        "token": "hp_Example0_" + "0" * 43,
        "error": "",
    }
