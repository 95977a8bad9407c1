"""http_request against a server on this machine that is granted by name and port."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pytest_django.fixtures import Settings

from workflows.engine.policy.permissions import PermissionSet
from workflows.engine.protocol.ports import PermissionEscalationNeeded, TaskFailed
from workflows.tools import ToolContext

from .conftest import use


class _Handler(BaseHTTPRequestHandler):
    """Says what it was asked, as JSON; the path's number is the status."""

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        heard = {
            "method": self.command,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": self.rfile.read(length).decode(),
        }
        plain = self.path == "/plain"
        answer = b"a\x00b" if plain else b'{"a": 1e400}' if self.path == "/odd" else None
        data = answer if answer is not None else json.dumps(heard).encode()
        status = self.path.lstrip("/")
        self.send_response(int(status) if status.isdigit() else 200)
        self.send_header("Content-Type", "text/plain" if plain else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_PUT = do_GET

    def log_message(self, *_: object) -> None:
        """The test's output is not the place."""


@pytest.fixture
def origin() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def granted(origin: str) -> ToolContext:
    return ToolContext(idempotency_key="key-1", permissions=PermissionSet(hosts=(origin,)))


def test_get_json(origin: str, granted: ToolContext) -> None:
    answer = use("http_request", granted, url=f"http://{origin}/", headers={"X-One": "1"})
    assert (answer["status"], answer["url"]) == (200, f"http://{origin}/")
    assert answer["headers"]["content-type"] == "application/json"
    assert answer["body"]["method"] == "GET"
    assert answer["body"]["headers"]["x-one"] == "1"
    assert "idempotency-key" not in answer["body"]["headers"]


def test_post_carries_the_key_and_the_body(origin: str, granted: ToolContext) -> None:
    url = f"http://{origin}/"
    heard = use("http_request", granted, url=url, method="POST", body={"a": [1]})["body"]
    assert heard["headers"]["idempotency-key"] == "key-1"
    assert heard["headers"]["content-type"] == "application/json"
    assert json.loads(heard["body"]) == {"a": [1]}
    own = {"Idempotency-Key": "mine", "Content-Type": "text/csv"}
    heard = use("http_request", granted, url=url, method="PUT", body="a,b", headers=own)["body"]
    assert heard["headers"]["idempotency-key"] == "mine"
    assert (heard["headers"]["content-type"], heard["body"]) == ("text/csv", "a,b")


@pytest.mark.parametrize(("status", "retryable"), [(404, False), (429, True), (503, True)])
def test_an_error_status(origin: str, granted: ToolContext, status: int, retryable: bool) -> None:
    url = f"http://{origin}/{status}"
    with pytest.raises(TaskFailed, match=f"answered {status}") as failure:
        use("http_request", granted, url=url)
    assert failure.value.retryable is retryable
    assert use("http_request", granted, url=url, fail_on_error=False)["status"] == status


def test_text_and_odd_json(origin: str, granted: ToolContext) -> None:
    assert use("http_request", granted, url=f"http://{origin}/plain")["body"] == "a\ufffdb"
    with pytest.raises(TaskFailed, match="the response's JSON is refused"):
        use("http_request", granted, url=f"http://{origin}/odd")


def test_a_private_host_needs_a_grant(origin: str, settings: Settings) -> None:
    url = f"http://{origin}/"
    with pytest.raises(TaskFailed, match="not allowed") as failure:
        use("http_request", url=url)
    assert not failure.value.retryable
    with pytest.raises(PermissionEscalationNeeded) as needed:
        use("http_request", ToolContext(permissions=PermissionSet()), url=url)
    assert (needed.value.operation, needed.value.resource) == ("net", origin)
    assert needed.value.requested.allows("net", origin)
    settings.HOLDPOINT = settings.HOLDPOINT | {"http_allow_hosts": [origin]}
    assert use("http_request", url=url)["status"] == 200
    with pytest.raises(PermissionEscalationNeeded):
        use("http_request", ToolContext(permissions=PermissionSet()), url=url)


def test_a_malformed_request(origin: str, granted: ToolContext) -> None:
    for url, why in (("ftp://a.example/", "http://"), ("https://a b/", "must be escaped")):
        with pytest.raises(TaskFailed, match=why):
            use("http_request", granted, url=url)
    with pytest.raises(TaskFailed, match="'method'"):
        use("http_request", granted, url=f"http://{origin}/", method="BREW")
