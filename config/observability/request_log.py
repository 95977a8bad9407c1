"""One log line per request; all lines of a request have its user and execution."""

import time
from collections.abc import Callable
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse
from structlog.contextvars import bind_contextvars, get_contextvars, unbind_contextvars

from config.observability.logs import hide_secrets
from workflows.common import tracing

logger = structlog.get_logger(__name__)

QUIET = frozenset({"/livez", "/readyz", "/metrics"})
_BOUND = ("user", "token", "execution_id")


class RequestLogMiddleware:
    """Log requests; runs after the authentication middleware.

    For token requests, the code that authenticates the token binds the user.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.monotonic()
        path = hide_secrets(request.path)
        attributes = {"method": str(request.method), "path": path}
        known = get_contextvars()
        if "request_id" in known:
            attributes["request_id"] = known["request_id"]
        try:
            with tracing.span(f"HTTP {request.method}", attributes):
                response = self.get_response(request)
            if request.path not in QUIET:
                ms = round((time.monotonic() - started) * 1000)
                logger.info(
                    "request",
                    method=request.method,
                    path=path,
                    status=response.status_code,
                    ms=ms,
                )
            return response
        finally:
            unbind_contextvars(*_BOUND)

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: dict[str, Any]
    ) -> None:
        """Bind the session's user and the execution id in the URL."""
        if request.session.session_key and request.user.is_authenticated:
            bind_contextvars(user=request.user.get_username())
        if "execution_id" in kwargs:
            bind_contextvars(execution_id=str(kwargs["execution_id"]))
