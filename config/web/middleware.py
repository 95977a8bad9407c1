"""Small middleware every request passes."""

import re
import uuid
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.middleware.common import CommonMiddleware
from django.utils.http import escape_leading_slashes

from workflows.api.problems import ROOT

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


class NoStoreMiddleware:
    """Marks every answer below /api/ as one that no cache keeps: refusals, 304s and streams too.

    Answers differ by caller, and a token's answer must not stay on a disk.  A client that keeps an
    ETag itself still sends If-None-Match and still gets 304.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if request.path_info.startswith(ROOT):
            response["Cache-Control"] = "no-store"
        return response


class RequestKeepingRedirect(HttpResponsePermanentRedirect):
    """308: the client sends the same request again, with its method and its body."""

    status_code = 308


class SlashMiddleware(CommonMiddleware):
    """Django's, except that an address without its final slash is answered 308.

    Django's 301 has clients repeat a POST as a GET: nothing is done, and the answer looks fine.
    """

    response_redirect_class = RequestKeepingRedirect

    def get_full_path_with_slash(self, request: HttpRequest) -> str:
        return escape_leading_slashes(request.get_full_path(force_append_slash=True))
