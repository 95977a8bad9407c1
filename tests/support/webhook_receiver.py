"""A webhook receiver on this machine, as unreliable as a test wants it."""

from __future__ import annotations

import hmac
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from workflows.webhooks.signing import signature

REPLAY_WINDOW_SECONDS = 300


def is_valid_signature(
    secret: str, *, message_id: str, timestamp: str, signatures: str, body: bytes, now: float
) -> bool:
    """Check signature and age of a message, as a receiver does."""
    if not timestamp.isascii() or not timestamp.isdigit():
        return False
    if abs(now - int(timestamp)) > REPLAY_WINDOW_SECONDS:
        return False
    expected = signature(secret, message_id=message_id, timestamp=int(timestamp), body=body)
    return any(hmac.compare_digest(expected, each) for each in signatures.split())


@dataclass(frozen=True)
class Got:
    """One request that came in, and what it was answered."""

    id: str
    headers: dict[str, str]
    raw: bytes
    status: int
    #: when it came in, seconds since the epoch: a signature is judged as of then
    at: float = field(default_factory=time.time)

    @property
    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.raw)
        return found

    def is_signed_with(self, secret: str) -> bool:
        return is_valid_signature(
            secret,
            message_id=self.headers["webhook-id"],
            timestamp=self.headers["webhook-timestamp"],
            signatures=self.headers["webhook-signature"],
            body=self.raw,
            now=self.at,
        )


@dataclass
class Receiver:
    """`answer(got)` gives the status; None hangs up without one."""

    answer: Callable[[Got], int | None] = lambda _: 200
    got: list[Got] = field(default_factory=list)
    url: str = ""
    #: Sent with each answer.
    headers: dict[str, str] = field(default_factory=dict)
    #: The text after the status; None for the usual one.
    reason: str | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, got: Got) -> int | None:
        status = self.answer(got)
        with self._lock:
            self.got.append(replace(got, status=status or 0))
        return status

    @property
    def accepted(self) -> list[Got]:
        """What was answered 2xx, in the order of arrival."""
        with self._lock:
            return [each for each in self.got if 200 <= each.status < 300]

    def order(self, execution_id: object) -> list[int]:
        """The seqs accepted for one execution, each at its first time."""
        found = [
            each.body["seq"] for each in self.accepted
            if each.body.get("executionId") == str(execution_id)
        ]  # fmt: skip
        return list(dict.fromkeys(found))


def flaky(share: float, *, seed: int = 1) -> Callable[[Got], int | None]:
    """Fails this share of requests: by 500, by 429, or by hanging up."""
    dice = random.Random(seed)

    def answer(_: Got) -> int | None:
        return dice.choice([500, 429, None]) if dice.random() < share else 200

    return answer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    receiver: Receiver

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {key.lower(): value for key, value in self.headers.items()}
        status = self.receiver.take(Got(headers.get("webhook-id", ""), headers, raw, 0))
        if status is None:
            self.close_connection = True
            return
        self.send_response(status, self.receiver.reason)
        self.send_header("Content-Length", "2")
        if status == 302:
            self.send_header("Location", "/elsewhere")
        for name, value in self.receiver.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def receiving(receiver: Receiver, address: str = "127.0.0.1") -> Iterator[Receiver]:
    """The receiver listens on a free port of the loopback; `receiver.url` is its address."""
    handler = type("Handler", (_Handler,), {"receiver": receiver})
    server = ThreadingHTTPServer((address, 0), handler)
    server.daemon_threads = True
    receiver.url = f"http://{address}:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
