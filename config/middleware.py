"""Small middleware every request passes."""

import re
import uuid
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}\Z")
PERMISSIONS_POLICY = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"


class RequestContextMiddleware:
    """Gives each request an id, in its log lines and in the answer, and the Permissions-Policy.

    An id that a proxy sent is kept when it is plain; anything else is replaced.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        sent = request.headers.get("X-Request-ID", "")
        request_id = sent if REQUEST_ID.match(sent) else uuid.uuid4().hex
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            response = self.get_response(request)
        response["X-Request-ID"] = request_id
        response.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
        return response
