"""The approvals API in memory behind real HTTP, with faults on demand, for tests of its clients."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from workflows.engine.values.bounded_json import digest

ROOT = "/api/v1/approvals/"
TOKEN = "hp_test"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def _any(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append(f"{self.command} {self.path}")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if self.server.faults:
                self.server.faults.pop(0)(self)
                return
            body = self.server.respond(json.loads(data) if data else {}, self)
            self.answer(201 if self.command == "POST" else 200, json.dumps(body).encode())

    do_GET = do_POST = _any

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """`decide` answers the next approval; `faults` are answered first, one a request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[str] = []
        self.faults: list[Callable[[Handler], None]] = []
        self.approvals: dict[str, dict[str, Any]] = {}
        self.keys: dict[str, str] = {}
        self.requests: list[dict[str, Any]] = []
        self.reports: list[dict[str, Any]] = []
        self.cancelled: list[str] = []
        self.closing = threading.Event()
        self.changed = threading.Condition()
        #: What the reviewer does with each new approval; None leaves it pending.
        self.reviewer: dict[str, Any] | None = {"status": "approved"}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def decide(self, approval_id: str, **changes: Any) -> None:
        with self.changed:
            approval = self.approvals[approval_id]
            approval |= changes
            approval["arguments_digest"] = digest(approval["arguments"])
            self.changed.notify_all()

    def respond(self, body: dict[str, Any], handler: Handler) -> dict[str, Any]:
        assert handler.headers["Authorization"] == f"Bearer {TOKEN}"
        url = urlsplit(handler.path)
        approval_id, _, action = url.path.removeprefix(ROOT).strip("/").partition("/")
        with self.changed:
            if not approval_id:
                return self._created(body, handler.headers["Idempotency-Key"])
            approval = self.approvals[approval_id]
            if action == "result":
                self.reports.append({"id": approval_id, **body})
            elif action == "cancel":
                self.cancelled.append(approval_id)
            elif action == "resubmit":
                approval |= {**body, "status": "pending", "edited": False}
                self._reviewed(approval)
            else:
                wait = float(parse_qs(url.query).get("wait", ["0"])[0])
                self.changed.wait_for(lambda: approval["status"] != "pending", timeout=wait)
            return dict(approval)

    def _created(self, body: dict[str, Any], key: str) -> dict[str, Any]:
        if key not in self.keys:
            self.requests.append(body)
            arguments = body["action"]["arguments"]
            approval = {
                "id": f"apr_{len(self.approvals)}",
                "status": "pending",
                "arguments": arguments,
                "arguments_digest": digest(arguments),
                "edited": False,
                "comment": "",
            }
            self.keys[key] = approval["id"]
            self.approvals[approval["id"]] = approval
            answer = dict(approval)
            self._reviewed(approval)
            del answer["arguments"]
            return answer
        return {**self.approvals[self.keys[key]], "status": "pending"}

    def _reviewed(self, approval: dict[str, Any]) -> None:
        if self.reviewer is not None:
            self.decide(approval["id"], **self.reviewer)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is what is being tested."""


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """A served Server, closed at the end."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            with server.changed:
                for approval in server.approvals.values():
                    approval["status"] = "cancelled"
                server.changed.notify_all()
            server.shutdown()
            thread.join()


# --- faults -------------------------------------------------------------------------------------


def status(code: int, **headers: str) -> Callable[[Handler], None]:
    body = json.dumps({"code": "some_code", "detail": "some detail"}).encode()
    return lambda handler: handler.answer(code, body, **headers)


def text(body: str) -> Callable[[Handler], None]:
    return lambda handler: handler.answer(200, body.encode())


def cut(handler: Handler) -> None:
    """Close the connection in the middle of the body."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"id": "apr_0", "status": "approved"}')
    handler.close_connection = True


def hang_up(handler: Handler) -> None:
    """Close the connection without a response."""
    handler.close_connection = True


def silent(handler: Handler) -> None:
    handler.server.closing.wait(20)
    handler.close_connection = True


def endless(handler: Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.closing.is_set():
        handler.wfile.write(b"x" * 65536)
    handler.close_connection = True


def drip(handler: Handler) -> None:
    """Send one byte after another, for ever."""
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.closing.wait(0.05):
        handler.wfile.write(b" ")
    handler.close_connection = True
