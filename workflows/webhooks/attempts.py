"""One try of one delivery: the request, and what came of it.  Touches no database."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from workflows import conf
from workflows.common import outbound_http

from .addresses import request_permissions
from .signing import headers

_SHOWN = 500
_GONE = 410
USER_AGENT = "Holdpoint-Webhooks/1"


@dataclass(frozen=True, slots=True)
class Message:
    """Everything that a try needs, read beforehand."""

    delivery_id: int
    endpoint_id: int
    #: What keeps its order: an execution, or a test message by itself.
    lane: int
    url: str
    message_id: str
    type: str
    attempt: int
    body: bytes
    secrets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """`status` is the receiver's answer, None when there was none; `error` says what went wrong."""

    message: Message
    status: int | None
    error: str
    ms: int
    response: str = ""
    retry_after: float | None = None

    @property
    def delivered(self) -> bool:
        return not self.error

    @property
    def is_gone(self) -> bool:
        """The receiver says that it wants nothing more (410)."""
        return self.status == _GONE


def post(message: Message, *, should_stop: Callable[[], bool]) -> Outcome:
    """Send it; anything but an answer of 2xx within the time is an error.  Never raises."""
    started = time.monotonic()
    try:
        answer = outbound_http.request(
            "POST",
            message.url,
            grants=request_permissions(message.url),
            headers=_headers(message),
            body=message.body,
            limits=_limits(),
            should_stop=should_stop,
        )
    except (outbound_http.NetworkDenied, outbound_http.NetworkFailed) as error:
        return Outcome(message, None, str(error), _ms(started))
    fine = 200 <= answer.status < 300
    return Outcome(
        message,
        answer.status,
        "" if fine else f"HTTP {answer.status} {answer.reason}".strip(),
        _ms(started),
        answer.text().replace("\0", "")[:_SHOWN],
        _seconds(answer.header("retry-after")),
    )


def _headers(message: Message) -> dict[str, str]:
    signed = headers(
        message.secrets,
        message_id=message.message_id,
        timestamp=int(time.time()),
        body=message.body,
    )
    return {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "holdpoint-event": message.type,
        "holdpoint-attempt": str(message.attempt),
        **signed,
    }


def _limits() -> outbound_http.NetLimits:
    most = conf.webhook_timeout_seconds()
    return outbound_http.NetLimits(
        connect_seconds=min(5.0, most),
        total_seconds=most,
        max_response_bytes=65_536,
        max_redirects=0,
    )


def _ms(started: float) -> int:
    return round((time.monotonic() - started) * 1000)


def _seconds(retry_after: str | None) -> float | None:
    """`Retry-After` in seconds; a date is left aside."""
    text = (retry_after or "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else None
