"""Refuses bodies of requests to the API before anything reads them."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from .problems import plain_problem

ROOT = "/api/"


class BodyLimitMiddleware:
    """411 for a body without a length, 413 for one that is too long.

    A body in chunks would otherwise be taken for an empty one, and what it asks for be lost.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path.startswith(ROOT):
            refusal = _refusal(request)
            if refusal is not None:
                return refusal
        return self.get_response(request)


def _refusal(request: HttpRequest) -> HttpResponse | None:
    length = request.headers.get("Content-Length", "")
    if not length:
        if "Transfer-Encoding" not in request.headers:
            return None
        detail = "Send the body with a Content-Length; chunks are not read."
        return plain_problem(status=411, code="length_required", detail=detail)
    if not (length.isascii() and length.isdigit()):
        detail = "Content-Length is not a number."
        return plain_problem(status=400, code="malformed", detail=detail)
    most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    if len(length) > 18 or int(length) > most:
        detail = f"The body is larger than {most} bytes."
        return plain_problem(status=413, code="too_large", detail=detail)
    return None
