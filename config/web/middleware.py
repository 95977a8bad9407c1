"""Middleware for request ids, caching and trailing slashes."""

import re
import uuid
from collections.abc import Callable
from http import HTTPStatus

import structlog
from django.core.exceptions import PermissionDenied
from django.http import (
    FileResponse,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponsePermanentRedirect,
)
from django.middleware.common import CommonMiddleware
from django.middleware.gzip import GZipMiddleware
from django.utils.http import escape_leading_slashes

from workflows.api.problems import ROOTS

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}\Z")
PERMISSIONS_POLICY = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"


class RequestContextMiddleware:
    """Give each request an id for its log lines and its response, and set the Permissions-Policy.

    A proxy's X-Request-ID is used if it has the allowed form.
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
    """Set `Cache-Control: no-store` on responses below /api/ and /access/, errors included.

    Responses differ by caller and must not be stored on disk.  Clients may still send an ETag in
    If-None-Match and receive 304.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if request.path_info.startswith(ROOTS):
            response["Cache-Control"] = "no-store"
        return response


class CompressionMiddleware(GZipMiddleware):
    """Compress pages, JSON and files, not streams: an event would wait in the compressor.

    Django adds random bytes to each response and masks the CSRF token, against BREACH.
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        whole = not response.streaming or isinstance(response, FileResponse)
        if not whole or response.status_code != HTTPStatus.OK:
            return response
        compressed: HttpResponseBase = super().process_response(request, response)
        return compressed


class BackgroundJobsMiddleware:
    """Require the permission `django_rq.admin` for the pages of background jobs.

    django-rq opens them to everybody with staff status, and reviewers and auditors have it.
    People who are not signed in go on to django-rq, which asks for a sign-in or for its API token.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: object, args: object, kwargs: object
    ) -> HttpResponse | None:
        match = request.resolver_match
        if match is None or not match.route.startswith(("django-rq/", "admin/django_rq/")):
            return None
        if request.user.is_authenticated and not request.user.has_perm("django_rq.admin"):
            raise PermissionDenied
        return None


class RequestKeepingRedirect(HttpResponsePermanentRedirect):
    """308: the client repeats the request with its method and body."""

    status_code = 308


class SlashMiddleware(CommonMiddleware):
    """CommonMiddleware that redirects to the path with a trailing slash by 308.

    After Django's 301 clients repeat a POST as a GET, which does nothing and looks successful.
    """

    response_redirect_class = RequestKeepingRedirect

    def get_full_path_with_slash(self, request: HttpRequest) -> str:
        return escape_leading_slashes(request.get_full_path(force_append_slash=True))
