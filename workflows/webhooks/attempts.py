"""Send one attempt of a delivery. This module does not use the database."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from workflows import conf
from workflows.common import outbound_http

from .addresses import request_permissions
from .signing import headers

_MAX_RESPONSE_CHARS = 500
_GONE = 410
USER_AGENT = "Holdpoint-Webhooks/1"


@dataclass(frozen=True, slots=True)
class Message:
    """All data of one attempt, read from the database before."""

    delivery_id: int
    endpoint_id: int
    #: Messages of one lane are sent in order: the execution id, or minus the id of a test delivery.
    lane: int
    url: str
    message_id: str
    type: str
    attempt: int
    body: bytes
    secrets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of an attempt.

    `status` is the HTTP status, or None without a response; `error` is "" on success.
    """

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
        """Whether the receiver asked for no more messages (410 Gone)."""
        return self.status == _GONE


def post(message: Message, *, should_stop: Callable[[], bool]) -> Outcome:
    """Send a message; any result other than a 2xx response in time is an error. Never raises."""
    started = time.monotonic()
    try:
        response = outbound_http.request(
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
    is_success = 200 <= response.status < 300
    return Outcome(
        message,
        response.status,
        "" if is_success else f"HTTP {response.status} {response.reason}".strip(),
        _ms(started),
        response.text().replace("\0", "")[:_MAX_RESPONSE_CHARS],
        retry_after_seconds(response.header("retry-after")),
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
    timeout = conf.webhook_timeout_seconds()
    return outbound_http.NetLimits(
        connect_seconds=min(5.0, timeout),
        total_seconds=timeout,
        max_response_bytes=65_536,
        max_redirects=0,
    )


def _ms(started: float) -> int:
    return round((time.monotonic() - started) * 1000)


def retry_after_seconds(retry_after: str | None) -> float | None:
    """Parse `Retry-After` in seconds; a date is ignored."""
    text = (retry_after or "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else None
