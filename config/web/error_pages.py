"""Answers when no view was found or a view broke: problems below /api/, pages elsewhere."""

import sys

import structlog
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views import defaults

from config.database.errors import RETRY_SECONDS, is_database_unavailable
from workflows.api.problems import ROOT, plain_problem


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400: a host that is not ours, a query that is no text."""
    if request.path.startswith(ROOT):
        detail = "The request is malformed."
        return plain_problem(status=400, code="malformed", detail=detail)
    return defaults.bad_request(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403 of a middleware; views below /api/ answer for themselves."""
    if request.path.startswith(ROOT):
        return plain_problem(status=403, code="forbidden", detail=str(exception) or "Forbidden")
    return defaults.permission_denied(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404."""
    if request.path.startswith(ROOT):
        return plain_problem(status=404, code="not_found", detail="There is nothing here.")
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """500: our own fault.  The request id is what a report should name.

    503 when all that is wrong is that PostgreSQL cannot be asked just now.
    """
    if is_database_unavailable(sys.exception()):
        return unavailable(request)
    if request.path.startswith(ROOT):
        request_id = structlog.contextvars.get_contextvars().get("request_id", "")
        detail = "Something went wrong here. It is in the log under this request id."
        return plain_problem(
            status=500, code="internal_error", detail=detail, request_id=request_id
        )
    return defaults.server_error(request)


def unavailable(request: HttpRequest) -> HttpResponse:
    """503: the database is unavailable; the client may retry."""
    # Replaces every lost connection at once.  While it hands them out, the pool would check one
    # after the other, with a wait after each that doubles from a second.
    if pool := getattr(connection, "pool", None):
        pool.check()
    if request.path.startswith(ROOT):
        detail = "The database cannot be asked at the moment. Send the request again."
        response: HttpResponse = plain_problem(status=503, code="unavailable", detail=detail)
    else:
        response = HttpResponse(render_to_string("503.html"), status=503)
    response["Retry-After"] = str(RETRY_SECONDS)
    return response
