"""Error handlers: problem documents below /api/, pages elsewhere."""

import sys

import structlog
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views import defaults
from django_htmx.http import reswap

from config.database.errors import (
    RETRY_SECONDS,
    is_concurrent_change,
    is_database_unavailable,
)
from workflows.api.problems import ROOTS, plain_problem


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400: an unknown host, or a query string that cannot be decoded or answered."""
    if request.path.startswith(ROOTS):
        detail = "The request is malformed."
        return plain_problem(status=400, code="malformed", detail=detail)
    return defaults.bad_request(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403 of middleware and pages; API views return their own.

    htmx swaps 403 and 409 of forms; this page and `conflict` are no part of another page.
    """
    if request.path.startswith(ROOTS):
        return plain_problem(status=403, code="forbidden", detail=str(exception) or "Forbidden")
    return reswap(defaults.permission_denied(request, exception), "none")


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404."""
    if request.path.startswith(ROOTS):
        return plain_problem(
            status=404, code="not_found", detail="No resource exists at this path."
        )
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """500 with the request id for reports; 503 without a database, 409 for a concurrent change."""
    if is_database_unavailable(sys.exception()):
        return unavailable(request)
    if is_concurrent_change(sys.exception()):
        return conflict(request)
    request_id = structlog.contextvars.get_contextvars().get("request_id", "")
    if request.path.startswith(ROOTS):
        detail = "Internal error. The log contains the details under this request id."
        return plain_problem(
            status=500, code="internal_error", detail=detail, request_id=request_id
        )
    return HttpResponse(render_to_string("500.html", {"request_id": request_id}), status=500)


def conflict(request: HttpRequest) -> HttpResponse:
    """409: another request changed the same thing at the same time; nothing was stored."""
    if request.path.startswith(ROOTS):
        detail = "Another request changed the same thing at the same time. Repeat the request."
        return plain_problem(status=409, code="refused", detail=detail, reason="concurrent_change")
    return reswap(HttpResponse(render_to_string("409.html"), status=409), "none")


def unavailable(request: HttpRequest) -> HttpResponse:
    """503: the database is unavailable; the client may retry."""
    # Replace all lost connections now.  Otherwise the pool checks one per attempt, with a wait
    # after each that starts at a second and doubles.
    if pool := getattr(connection, "pool", None):
        pool.check()
    if request.path.startswith(ROOTS):
        detail = "The database is unavailable. Retry the request."
        response: HttpResponse = plain_problem(status=503, code="unavailable", detail=detail)
    else:
        response = HttpResponse(render_to_string("503.html"), status=503)
    response["Retry-After"] = str(RETRY_SECONDS)
    return response
