"""Messages that break the JSON rules: an answer about the field or a refusal, nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.engine.values.bounded_json import BoundedJSONError, parse
from workflows.mcp_server.message_validation import checked_message, raise_if_malformed


def message(arguments: str, **more: Any) -> bytes:
    params = {"name": "execute", "arguments": "@", **more}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return json.dumps(body).replace('"@"', arguments).encode()


def test_a_valid_message_is_unchanged() -> None:
    body = message('{"inputs": {"a": 1.0}}')
    assert checked_message(body) is body


@pytest.mark.parametrize("meta", [{}, {"_meta": None}, {"_meta": {"progressToken": 5}}])
def test_invalid_arguments_are_removed_and_noted(meta: dict[str, Any]) -> None:
    left = json.loads(checked_message(message('{"inputs": {"a": 1, "a": 2}}', **meta)))
    params = left["params"]
    assert (left["id"], params["name"], params["arguments"]) == (1, "execute", {})
    assert params["_meta"].get("progressToken") == (meta.get("_meta") or {}).get("progressToken")
    with pytest.raises(BoundedJSONError) as noted:
        raise_if_malformed(params)
    assert noted.value.path == "inputs.a"


def test_invalid_arguments_as_a_whole_are_named() -> None:
    left = json.loads(checked_message(message('"\\u0000"')))
    with pytest.raises(BoundedJSONError) as noted:
        raise_if_malformed(left["params"])
    assert noted.value.path == "arguments"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[" * 100_000,
        message("{}", name="\0"),
        message('{"a": "\\ud800"}', name="\0"),
        message('{"a": 1, "a": 2}').replace(b"tools/call", b"tools/list"),
        b'{"method": "tools/call", "params": [{"arguments": "\\u0000"}]}',
        message('{"a": 1, "a": 2}', _meta=[1]),
    ],
)
def test_unanswerable_messages_are_refused(body: bytes) -> None:
    with pytest.raises(BoundedJSONError):
        checked_message(body)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: message(text)))
def test_accepted_messages_keep_the_rules(body: bytes) -> None:
    try:
        left = checked_message(body)
    except BoundedJSONError:
        return
    parse(left)


@pytest.mark.parametrize("params", [None, {}, {"_meta": 3}, {"_meta": {"holdpoint/malformed": 3}}])
def test_a_call_without_notes_is_valid(params: Any) -> None:
    raise_if_malformed(params)
