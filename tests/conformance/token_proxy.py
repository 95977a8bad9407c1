"""A proxy that adds a token to each request: the suite's client has no way to sign in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding"})


@contextmanager
def token_proxy(target: str, token: str) -> Iterator[str]:
    """Run the proxy, and give its address; headers and bodies pass as they are."""

    class Handler(BaseHTTPRequestHandler):
        def _forward(self) -> None:
            parts = urlsplit(target)
            upstream = HTTPConnection(parts.hostname or "", parts.port, timeout=90)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            own = f"127.0.0.1:{server.server_port}"
            headers = {
                # The server knows its own address, not that of the proxy.
                name: value.replace(own, parts.netloc) if name in ("Host", "Origin") else value
                for name, value in ((each.title(), text) for each, text in self.headers.items())
                if name.lower() not in _HOP_BY_HOP
            }
            headers["Authorization"] = f"Bearer {token}"
            upstream.request(self.command, self.path, body or None, headers)
            response = upstream.getresponse()
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in _HOP_BY_HOP:
                    self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):
                while chunk := response.read1():
                    self.wfile.write(chunk)
                    self.wfile.flush()
            upstream.close()

        do_GET = do_POST = do_DELETE = _forward

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the suite shows what it sends."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
