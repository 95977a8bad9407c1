"""Limits on the size of request bodies, by path.

`limit_body` wraps the ASGI application, so the limits hold for every method, every path and every
caller, signed in or not; Django REST framework ignores DATA_UPLOAD_MAX_MEMORY_SIZE.  daphne stores
a whole body before it calls the application, so the proxy needs a limit too.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Any, Final

import structlog
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.utils import translation
from mcp_types import INVALID_REQUEST

from config.web.middleware import REQUEST_ID
from workflows.api.problems import ROOTS, plain_problem
from workflows.engine.values.bounded_json import DEFAULT

Application = Callable[[Any, Any, Any], Awaitable[None]]

#: Limit for paths that are not listed below: sign-in, health checks, static files.
SMALL: Final = 64 * 1024
#: Pages with forms that submit plans, edits and JSON.
_FORMS: Final = ("/review/", "/admin/", "/plan/", "/workflows/edit/")
_SIGN_IN: Final = ("/admin/login/", "/admin/logout/")
_MCP: Final = ("/mcp", "/mcp/")
_GATES: Final = "/mcp/gate/"

logger = structlog.get_logger(__name__)


def body_limit(path: str) -> int:
    """Return the largest body, in bytes, of a request to `path`."""
    if _is_mcp(path):
        return DEFAULT.max_bytes
    if path.startswith((*ROOTS, *_FORMS)) and not path.startswith(_SIGN_IN):
        limit: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        return limit
    return SMALL


def _is_mcp(path: str) -> bool:
    return path in _MCP or path.startswith(_GATES)


def refusal(scope: dict[str, Any]) -> HttpResponse | None:
    """Return the response that refuses the body by its headers, or None to accept it.

    400 for a Content-Length that is not a number, 413 for one beyond the limit, and below /api/
    411 for a chunked body, which Django REST framework would read as empty.
    """
    path = scope["path"]
    headers = dict(scope["headers"])
    length = headers.get(b"content-length", b"")
    if length:
        if not length.isdigit():
            return _refused(scope, 400, "malformed", "Content-Length is not a number.")
        if len(length) > 18 or int(length) > body_limit(path):
            return too_large(scope)
    elif b"transfer-encoding" in headers and path.startswith(ROOTS):
        detail = "Send the body with a Content-Length; chunked bodies are not accepted."
        return _refused(scope, 411, "length_required", detail)
    return None


def too_large(scope: dict[str, Any]) -> HttpResponse:
    """Return 413, as a problem document below /api/ and as a page elsewhere."""
    detail = f"The body is larger than {body_limit(scope['path'])} bytes."
    return _refused(scope, 413, "too_large", detail)


def _refused(scope: dict[str, Any], status: int, code: str, detail: str) -> HttpResponse:
    response: HttpResponse
    path = scope["path"]
    if _is_mcp(path):
        error = {"code": INVALID_REQUEST, "message": detail}
        response = JsonResponse({"jsonrpc": "2.0", "id": None, "error": error}, status=status)
    elif path.startswith(ROOTS):
        response = plain_problem(status=status, code=code, detail=detail)
    else:
        # Only for the language of its cookies and headers.
        request = ASGIRequest({"method": "GET", "query_string": b"", **scope}, BytesIO())
        with translation.override(translation.get_language_from_request(request)):
            page = render_to_string("413.html", {"limit": body_limit(path), "status": status})
        response = HttpResponse(page, status=status)
    sent = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    response["X-Request-ID"] = sent if REQUEST_ID.match(sent) else uuid.uuid4().hex
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "no-store"
    response["Content-Length"] = str(len(response.content))
    logger.info("body refused", path=path, status=status, request_id=response["X-Request-ID"])
    return response


def limit_body(application: Application) -> Application:
    """Wrap an ASGI application so that it receives no more of a body than its path allows."""

    async def limited(scope: Any, receive: Any, send: Any) -> None:
        refused = refusal(scope)
        if refused is not None:
            await _send(refused, send)
            return
        limit, size = body_limit(scope["path"]), 0

        async def counted() -> Any:
            nonlocal size
            message = await receive() if size <= limit else {}
            size += len(message.get("body", b""))
            # The application sees a client that exceeds the limit as disconnected.
            return message if size <= limit else {"type": "http.disconnect"}

        async def unless_refused(message: Any) -> None:
            if size <= limit:
                await send(message)

        await application(scope, counted, unless_refused)
        if size > limit:
            await _send(too_large(scope), send)

    return limited


async def _send(response: HttpResponse, send: Any) -> None:
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    start = {"type": "http.response.start", "status": response.status_code, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": response.content})
