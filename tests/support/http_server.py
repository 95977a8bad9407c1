"""A real HTTP server on this machine, with the manners that clients have to survive."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class Handler(BaseHTTPRequestHandler):
    """`/echo` tells the request, `/redirect` sends on, the others misbehave as they are called."""

    protocol_version = "HTTP/1.1"
    server: Server

    def _any(self) -> None:
        url = urlsplit(self.path)
        self.query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        self.server.seen.append(f"{self.command} {self.path}")
        route = getattr(self, f"route_{url.path.strip('/') or 'echo'}", self.route_missing)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            route()

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = _any

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def route_echo(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        told = {
            "method": self.command,
            "path": self.path,
            "headers": dict(self.headers.items()),
            "body": body.decode(),
        }
        self.answer(200, json.dumps(told).encode(), Content_Type="application/json")

    def route_redirect(self) -> None:
        self.answer(int(self.query.get("status", "302")), b"", Location=self.query["to"])

    def route_loop(self) -> None:
        self.answer(302, b"", Location=self.path)

    def route_missing(self) -> None:
        self.answer(404, b"no such page")

    def route_large(self) -> None:
        self.answer(200, b"x" * int(self.query["bytes"]))

    def route_endless(self) -> None:
        self.send_response(200)
        self.end_headers()
        while not self.server.closing.is_set():
            self.wfile.write(b"x" * 65536)

    def route_drip(self) -> None:
        self.send_response(200)
        self.end_headers()
        while not self.server.closing.wait(0.05):
            self.wfile.write(b"x")

    def route_silent(self) -> None:
        self.server.closing.wait(20)

    def route_short(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"only this")
        self.close_connection = True

    def route_garbage(self) -> None:
        self.wfile.write(b"\x00\x01 not http at all\r\n\r\n")
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """Listens on a free port of 127.0.0.1; `seen` holds "METHOD path" of every request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[str] = []
        self.closing = threading.Event()

    @property
    def port(self) -> int:
        return self.server_address[1]

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
            server.shutdown()
            thread.join()
