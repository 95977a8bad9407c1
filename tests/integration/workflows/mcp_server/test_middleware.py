"""Authentication, hosts, origins and bodies at /mcp."""

from __future__ import annotations

import json
import signal
from typing import Any

import httpx2
import pytest

from tests.integration.workflows.mcp_server.conftest import Tokens
from tests.integration.workflows.mcp_server.web import Web, call_of, post, rpc_message
from workflows.engine.values.bounded_json import DEFAULT
from workflows.models import ApiToken

pytestmark = pytest.mark.django_db(transaction=True)

PING = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
LIST = call_of("list_pending", {})


def message_of(response: httpx2.Response) -> str:
    return str(response.json()["error"]["message"])


@pytest.mark.parametrize(
    "credential",
    [
        None,
        "x",
        "hp_12345678_" + "a" * 43,
        "hp_" + "é" * 51,
        "a" * 5000,
    ],
)
def test_a_malformed_token_is_401(web: Web, people: Any, credential: str | None) -> None:
    headers = {} if credential is None else {"Authorization": b"Bearer " + credential.encode()}
    response = httpx2.post(web.url, json=PING, headers=headers, timeout=60)
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith('Bearer realm="holdpoint"')
    assert ("invalid_token" in response.headers["www-authenticate"]) == bool(credential)


def test_an_expired_or_revoked_token_is_401(web: Web, token: Tokens, people: Any) -> None:
    text = token("operator")
    assert post(web.url, text, PING).status_code == 200
    assert post(web.url, None, PING, Authorization=f"Basic {text}").status_code == 401
    people["operator"].is_active = False
    people["operator"].save()
    assert post(web.url, text, PING).status_code == 401
    other = token("admin")
    ApiToken.objects.update(revoked_at="2020-01-01T00:00:00Z")
    assert post(web.url, other, PING).status_code == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:1", 200),
        ("localhost", 200),
        ("LOCALHOST:99", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost@evil.example", 421),
        ("", 421),
    ],
)
def test_unknown_hosts_are_refused(web: Web, token: Tokens, host: str, status: int) -> None:
    assert post(web.url, token("operator"), PING, Host=host).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://testserver", 200),
        ("HTTP://TESTSERVER", 200),
        ("https://testserver", 403),
        ("http://testserver:81", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_unknown_origins_are_refused(web: Web, token: Tokens, origin: str, status: int) -> None:
    # Before the token: a page of another site learns nothing, not even that one was wrong.
    for credential in (token("operator"), None):
        response = post(web.url, credential, PING, Origin=origin)
        assert response.status_code == (status if credential or status != 200 else 401)


def test_paths_below_and_a_trailing_slash(web: Web, token: Tokens) -> None:
    text = token("operator")
    assert post(f"{web.url}/", text, PING).status_code == 200
    assert post(f"{web.url}/x", text, PING).status_code == 404
    assert post(f"{web.url}x", text, PING).status_code == 404


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "OPTIONS"])
def test_only_posts_are_accepted(web: Web, token: Tokens, method: str) -> None:
    headers = {"Authorization": f"Bearer {token('operator')}"}
    response = httpx2.request(method, web.url, headers=headers, timeout=60)
    assert (response.status_code, response.headers["allow"]) == (405, "POST")


def test_a_response_has_its_request_id(web: Web, token: Tokens) -> None:
    sent = post(web.url, token("operator"), PING, **{"X-Request-ID": "from-a-proxy-1"})
    assert sent.headers["x-request-id"] == "from-a-proxy-1"
    assert sent.headers["x-content-type-options"] == "nosniff"
    own = post(web.url, None, PING, **{"X-Request-ID": "no\tgood"})
    assert len(own.headers["x-request-id"]) == 32


def test_a_body_is_bounded(web: Web, token: Tokens) -> None:
    text = token("operator")
    large = b'{"x": "' + b"a" * DEFAULT.max_bytes + b'"}'
    assert post(web.url, text, large).status_code == 413

    def pieces() -> Any:
        yield from (b'{"x": "', *[b"a" * 65536] * 17, b'"}')

    headers = {"Authorization": f"Bearer {text}", "Content-Type": "application/json"}
    answer = httpx2.post(web.url, content=pieces(), headers=headers, timeout=60)
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": "\\u0000", "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": NaN, "method": "ping"}',
        b'{"id": 1, "method": "tools/call", "params": {"name": "a", "name": "b"}}',
    ],
)
def test_an_invalid_message_is_400(web: Web, token: Tokens, body: bytes) -> None:
    response = post(web.url, token("operator"), body)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == -32700


def test_unexpected_messages_are_no_5xx(web: Web, token: Tokens) -> None:
    text = token("operator")
    bodies: list[Any] = [[], [PING], 1, "x", None, {}, {"jsonrpc": "2.0"}, {**PING, "id": {}}]
    bodies += [call_of("list_pending", 3), {**LIST, "params": []}, {**LIST, "params": {}}]
    for body in bodies:
        response = post(web.url, text, body)
        # 202 is what the protocol says to a notification that nobody knows.
        assert response.status_code in (202, 400) or "error" in rpc_message(response), body


def test_an_unknown_tool_is_named(web: Web, token: Tokens) -> None:
    error = rpc_message(post(web.url, token("operator"), call_of("nothing", {})))["error"]
    assert error["code"] == -32602
    assert error["message"].startswith("there is no tool 'nothing'; there are: execute, ")


#: What is wrong inside the arguments, as text, and the field that has to be named.
MALFORMED = [
    ('{"plan": {"tasks": [], "tasks": []}}', "plan.tasks"),
    ('{"inputs": {"a": "\\u0000"}}', "inputs.a"),
    ('{"inputs": {"a": ["\\ud800"]}}', "inputs.a[0]"),
    ('{"inputs": {"a": 1e400}}', "inputs.a"),
    ('{"inputs": {"a": NaN}}', "inputs.a"),
    ('{"inputs": ' + '{"a":' * 70 + "1" + "}" * 70 + "}", "inputs.a"),
    ('{"inputs": {"a": [' + "1," * 10_000 + "1]}}", "inputs.a"),
    ('{"inputs": {"' + "k" * 300 + '": 1}}', "inputs"),
    ('{"idempotency_key": "a", "idempotency_key": "b"}', "idempotency_key"),
]


@pytest.mark.parametrize(("arguments", "field"), MALFORMED)
def test_arguments_that_break_the_json_rules_name_the_field(
    web: Web, token: Tokens, arguments: str, field: str
) -> None:
    body = json.dumps(call_of("execute", "@")).replace('"@"', arguments).encode()
    response = post(web.url, token("operator"), body)
    result = rpc_message(response)["result"]
    assert (response.status_code, result["isError"]) == (200, True)
    (error,) = result["_meta"]["holdpoint/error"]["errors"]
    assert error["path"].startswith(field)
    assert result["content"][0]["text"].startswith(field)


def test_the_web_process_stops_without_errors(web: Web, token: Tokens, capfd: Any) -> None:
    assert post(web.url, token("operator"), PING).status_code == 200
    capfd.readouterr()
    assert web.end(signal.SIGTERM) == 0
    assert "Traceback" not in (err := capfd.readouterr().err)
    assert "destroyed" not in err
