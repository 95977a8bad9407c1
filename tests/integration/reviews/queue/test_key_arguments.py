"""The values that tell rows of the queue apart, and that secrets are never among them."""

from __future__ import annotations

from typing import Any

import pytest

from reviews.queue.key_arguments import key_arguments
from workflows.models import Execution, Hold


def row(payload: Any, schema: Any = None, **policy: Any) -> tuple[tuple[str, str], ...]:
    hold = Hold(reason="node_review", phase="BEFORE_EXECUTION", target="a.b", payload=payload)
    hold.execution = Execution(policy=policy)
    return key_arguments(hold, schema)


@pytest.mark.parametrize(
    ("payload", "schema", "shown"),
    [
        ({"mode": "w", "path": "a.md"}, None, (("path", "a.md"), ("mode", "w"))),
        (
            {"value": {"amount": 12.5, "recipient": "Pear"}},
            None,
            (("recipient", "Pear"), ("amount", "12.5")),
        ),
        ({"body": "long\ntext", "flag": True}, None, ()),
        (
            {"path": "a.md", "serial": "X1"},
            {"properties": {"serial": {"x-key": True}}},
            (("serial", "X1"), ("path", "a.md")),
        ),
        ("two words", None, (("", "two words"),)),
        (None, None, ()),
        ([1, 2], None, ()),
    ],
)
def test_the_most_telling_values_come_first(payload: Any, schema: Any, shown: Any) -> None:
    assert row(payload, schema) == shown


def test_the_workflow_chooses_first() -> None:
    payload = {"path": "a.md", "customer": {"number": "K-7"}}
    assert row(payload, key_arguments=["customer.number"])[0] == ("number", "K-7")


@pytest.mark.parametrize(
    ("payload", "schema", "policy"),
    [
        ({"password": "hunter2hunter2"}, None, {}),
        ({"name": "hunter2"}, {"properties": {"name": {"writeOnly": True}}}, {}),
        ({"customer": {"iban": "hunter2"}}, None, {"secrets": ["customer.iban"]}),
        (
            {"customer": {"iban": "hunter2"}},
            None,
            {"secrets": ["iban"], "key_arguments": ["customer.iban"]},
        ),
    ],
)
def test_a_secret_is_never_shown(payload: Any, schema: Any, policy: dict[str, Any]) -> None:
    assert "hunter2" not in str(row(payload, schema, **policy))
