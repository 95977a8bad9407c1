"""`/mcp` over HTTP: who may come in at all, before the SDK sees anything.

In this order: transport, host and origin (a page of another site must not reach a server on this
machine by rebinding a name), method, token, size and form of the body.
"""

from __future__ import annotations

import json
import logging
import math
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog
from django.conf import settings
from django.http.request import split_domain_port, validate_host
from mcp_types import INVALID_REQUEST, PARSE_ERROR
from rest_framework.exceptions import Throttled
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from workflows.common.client_address import client_address
from workflows.engine.bounded_json import DEFAULT, BoundedJSONError

from .callers import NOT_VALID, Caller, authenticate_and_count
from .message_validation import checked_message
from .threads import in_thread

#: Where the request keeps who calls.
CALLER: Final = "holdpoint.caller"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")
_UNAUTHORIZED: Final = -32001

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Refused(Exception):
    """An answer instead of the SDK's."""

    status: int
    message: str
    code: int = INVALID_REQUEST
    headers: tuple[tuple[bytes, bytes], ...] = ()


class GatewayMiddleware:
    """An ASGI application that lets checked requests through to `inside`."""

    def __init__(self, inside: ASGIApp) -> None:
        self._inside = inside

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _headers(scope)
        sent = headers.get("x-request-id", "")
        request_id = sent if _REQUEST_ID.fullmatch(sent) else uuid.uuid4().hex
        answer = _stamped(send, request_id)
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                _check_way(scope, headers)
                caller = await _caller(scope, headers)
                body = await _body(headers, receive)
            except _Refused as refused:
                logger.info("refused at /mcp: %s %s", refused.status, refused.message)
                await _refuse(refused, answer)
                return
            await self._inside({**scope, CALLER: caller}, _replayed(body, receive), answer)


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


# --- checks ---------------------------------------------------------------------------------------


def _check_way(scope: Scope, headers: Mapping[str, str]) -> None:
    if settings.SECURE_SSL_REDIRECT and not _is_secure(scope, headers):
        raise _Refused(403, "A token travels over https alone.")
    host = split_domain_port(headers.get("host", "").lower())[0]
    if not host or not validate_host(host, settings.ALLOWED_HOSTS):
        raise _Refused(421, "This host is not served here (ALLOWED_HOSTS).")
    # Programs send no origin; a browser always does.
    origin = headers.get("origin")
    if origin is not None and origin.lower() not in settings.ALLOWED_ORIGINS:
        raise _Refused(403, "Pages of this origin may not call here (ALLOWED_ORIGINS).")
    if scope["method"] != "POST":
        message = "Calls are POSTs; nothing is kept between two calls."
        raise _Refused(405, message, headers=((b"allow", b"POST"),))


def _is_secure(scope: Scope, headers: Mapping[str, str]) -> bool:
    trusted: tuple[str, str] | None = getattr(settings, "SECURE_PROXY_SSL_HEADER", None)
    if trusted:
        name = trusted[0].removeprefix("HTTP_").replace("_", "-").lower()
        return headers.get(name, "").split(",")[0].strip() == trusted[1]
    return bool(scope.get("scheme") == "https")


async def _caller(scope: Scope, headers: Mapping[str, str]) -> Caller:
    scheme, _, text = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() != "bearer" or not text:
        raise _unauthorized("Send an API token: Authorization: Bearer hp_…", b"")
    try:
        remote = (scope.get("client") or ("",))[0]
        address = client_address(remote or "", headers.get("x-forwarded-for", ""))
        caller = await in_thread(authenticate_and_count, text.strip(), address)
    except Throttled as throttled:
        after = str(math.ceil(getattr(throttled, "wait", 0))).encode()
        raise _Refused(429, str(throttled.detail), headers=((b"retry-after", after),)) from None
    if caller is None:
        raise _unauthorized(NOT_VALID, b', error="invalid_token"')
    return caller


def _unauthorized(message: str, more: bytes) -> _Refused:
    challenge = (b"www-authenticate", b'Bearer realm="holdpoint"' + more)
    return _Refused(401, message, _UNAUTHORIZED, (challenge,))


# --- bodies ---------------------------------------------------------------------------------------


async def _body(headers: Mapping[str, str], receive: Receive) -> bytes:
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > DEFAULT.max_bytes:
        raise _too_large()
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Refused(400, "The request ended before its body did.")
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), message.get("more_body", False)
        if size > DEFAULT.max_bytes:
            raise _too_large()
    try:
        return checked_message(b"".join(parts))
    except BoundedJSONError as error:
        raise _Refused(400, f"The body is refused: {error}", PARSE_ERROR) from error


def _too_large() -> _Refused:
    return _Refused(413, f"The body is larger than {DEFAULT.max_bytes} bytes.")


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body that was read, and then whatever else comes."""
    waiting = [body]

    async def replay() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replay


# --- answers --------------------------------------------------------------------------------------


def _stamped(send: Send, request_id: str) -> Send:
    """Answers carry the request's id; no browser guesses their type, and no cache keeps them."""
    more = (
        (b"x-request-id", request_id.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
    )

    async def stamped(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = [each for each in message.get("headers", ()) if each[0] != b"cache-control"]
            message = {**message, "headers": [*own, *more]}
        await send(message)

    return stamped


async def _refuse(refused: _Refused, send: Send) -> None:
    told: dict[str, Any] = {"code": refused.code, "message": refused.message}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": told}).encode()
    headers = [(b"content-type", b"application/json")]
    await send(
        {
            "type": "http.response.start",
            "status": refused.status,
            "headers": [*headers, *refused.headers],
        }
    )
    await send({"type": "http.response.body", "body": body})
