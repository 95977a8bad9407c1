"""Check HTTP requests to `/mcp` and `/mcp/gate/` before the SDK handles them.

The checks, in this order: transport, host and origin (against DNS rebinding by pages of other
sites), method, token, size and syntax of the body.
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

from workflows.api.authentication import bearer_challenge
from workflows.common.client_address import client_address
from workflows.engine.values.bounded_json import DEFAULT, BoundedJSONError

from .authentication import NOT_VALID, Caller, authenticate_and_count
from .message_validation import checked_message
from .threads import in_thread

#: Key of the ASGI scope that holds the Caller.
CALLER: Final = "holdpoint.caller"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")
#: Paths that the challenge of a 401 names as the resource.
_RESOURCE: Final = re.compile(r"/mcp(/gate/[-a-zA-Z0-9_]+)?/?")
_UNAUTHORIZED: Final = -32001

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Rejected(Exception):
    """The request is rejected with this response."""

    status: int
    message: str
    code: int = INVALID_REQUEST
    headers: tuple[tuple[bytes, bytes], ...] = ()


class GatewayMiddleware:
    """ASGI middleware that passes only checked requests on to `app`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _headers(scope)
        client_id = headers.get("x-request-id", "")
        request_id = client_id if _REQUEST_ID.fullmatch(client_id) else uuid.uuid4().hex
        stamped_send = _with_headers(send, request_id)
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                _check_request(scope, headers)
                caller = await _caller(scope, headers)
                body = await _body(headers, receive)
            except _Rejected as rejection:
                logger.info("request to /mcp rejected: %s %s", rejection.status, rejection.message)
                await _send_rejection(rejection, stamped_send)
                return
            await self._app({**scope, CALLER: caller}, _replayed(body, receive), stamped_send)


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


# --- checks ---------------------------------------------------------------------------------------


def _check_request(scope: Scope, headers: Mapping[str, str]) -> None:
    if settings.SECURE_SSL_REDIRECT and not _is_secure(scope, headers):
        raise _Rejected(403, "Tokens are accepted only over https.")
    host = split_domain_port(headers.get("host", "").lower())[0]
    if not host or not validate_host(host, settings.ALLOWED_HOSTS):
        raise _Rejected(421, "This host is not in ALLOWED_HOSTS.")
    # Only browsers send an origin.
    origin = headers.get("origin")
    if origin is not None and origin.lower() not in settings.ALLOWED_ORIGINS:
        raise _Rejected(403, "This origin is not in ALLOWED_ORIGINS.")
    if scope["method"] != "POST":
        message = "Use POST; the server keeps no sessions."
        raise _Rejected(405, message, headers=((b"allow", b"POST"),))


def _is_secure(scope: Scope, headers: Mapping[str, str]) -> bool:
    trusted: tuple[str, str] | None = getattr(settings, "SECURE_PROXY_SSL_HEADER", None)
    if trusted:
        name = trusted[0].removeprefix("HTTP_").replace("_", "-").lower()
        return headers.get(name, "").split(",")[0].strip() == trusted[1]
    return bool(scope.get("scheme") == "https")


async def _caller(scope: Scope, headers: Mapping[str, str]) -> Caller:
    scheme, _, text = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() != "bearer" or not text:
        raise _unauthorized(scope, "Send an API token: Authorization: Bearer hp_…", b"")
    try:
        remote = (scope.get("client") or ("",))[0]
        address = client_address(remote or "", headers.get("x-forwarded-for", ""))
        caller = await in_thread(authenticate_and_count, text.strip(), address)
    except Throttled as throttled:
        after = str(math.ceil(getattr(throttled, "wait", 0))).encode()
        raise _Rejected(429, str(throttled.detail), headers=((b"retry-after", after),)) from None
    if caller is None:
        raise _unauthorized(scope, NOT_VALID, b', error="invalid_token"')
    return caller


def _unauthorized(scope: Scope, message: str, more: bytes) -> _Rejected:
    path = scope["path"]
    resource = path.strip("/") if _RESOURCE.fullmatch(path) else "mcp"
    challenge = (b"www-authenticate", bearer_challenge(resource).encode() + more)
    return _Rejected(401, message, _UNAUTHORIZED, (challenge,))


# --- bodies ---------------------------------------------------------------------------------------


async def _body(headers: Mapping[str, str], receive: Receive) -> bytes:
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > DEFAULT.max_bytes:
        raise _too_large()
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Rejected(400, "The request ended before its body did.")
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), message.get("more_body", False)
        if size > DEFAULT.max_bytes:
            raise _too_large()
    try:
        return checked_message(b"".join(parts))
    except BoundedJSONError as error:
        raise _Rejected(400, f"The body is refused: {error}", PARSE_ERROR) from error


def _too_large() -> _Rejected:
    return _Rejected(413, f"The body is larger than {DEFAULT.max_bytes} bytes.")


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that repeats the body and then continues with `receive`."""
    unread = [body]

    async def replay() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return replay


# --- responses ------------------------------------------------------------------------------------


def _with_headers(send: Send, request_id: str) -> Send:
    """Add the request id, and headers against content sniffing and caching, to each response."""
    added = (
        (b"x-request-id", request_id.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
    )

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [each for each in message.get("headers", ()) if each[0] != b"cache-control"]
            message = {**message, "headers": [*kept, *added]}
        await send(message)

    return send_with_headers


async def _send_rejection(rejection: _Rejected, send: Send) -> None:
    error: dict[str, Any] = {"code": rejection.code, "message": rejection.message}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    headers = [(b"content-type", b"application/json")]
    await send(
        {
            "type": "http.response.start",
            "status": rejection.status,
            "headers": [*headers, *rejection.headers],
        }
    )
    await send({"type": "http.response.body", "body": body})
