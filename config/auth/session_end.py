"""What a page receives after its session has ended: the sign-in page, never a part of it."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import resolve_url
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.csrf import csrf_failure as csrf_failure_page


class SessionEndMiddleware:
    """Send scripts and forms of a page whose session has ended to the sign-in page.

    Views redirect anonymous users to the sign-in page.  A script would follow this redirect and
    show the sign-in page inside its own page, so it receives 401 and the address in HX-Redirect,
    which htmx and request.js open.  After the sign-in the person returns to the page they were on,
    not to the address that the script or the form was sent to.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if not _leads_to_sign_in(response) or request.user.is_authenticated:
            return response
        if is_script(request):
            return _open(_sign_in_url(_page_of_script(request)), status=401)
        if request.method not in ("GET", "HEAD"):
            return HttpResponseRedirect(_sign_in_url(_referring_page(request)))
        return response


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Reload the page of a script that was opened before the last sign-in; forms get the 403 page.

    A sign-in replaces the CSRF token, so the tokens in pages that are open in other tabs fail.
    """
    if not is_script(request):
        return csrf_failure_page(request, reason)
    if not request.user.is_authenticated:
        return _open(_sign_in_url(_page_of_script(request)), status=401)
    text = _("You signed in again since this page was opened, so nothing was sent. Try again.")
    messages.warning(request, text)
    return _open(_page_of_script(request) or reverse("home"), status=403)


def is_script(request: HttpRequest) -> bool:
    """Return whether htmx or request.js sent the request."""
    return request.headers.get("HX-Request") == "true"


def _leads_to_sign_in(response: HttpResponse) -> bool:
    if not isinstance(response, HttpResponseRedirect):
        return False
    return urlsplit(response.url).path == resolve_url(settings.LOGIN_URL)


def _open(url: str, *, status: int) -> HttpResponse:
    return HttpResponse(status=status, headers={"HX-Redirect": url, "Cache-Control": "no-store"})


def _sign_in_url(page: str) -> str:
    query = {"ended": "1"} | ({"next": page} if page else {})
    return f"{resolve_url(settings.LOGIN_URL)}?{urlencode(query)}"


def _page_of_script(request: HttpRequest) -> str:
    return _own_path(request, request.headers.get("HX-Current-URL", ""))


def _referring_page(request: HttpRequest) -> str:
    return _own_path(request, request.headers.get("Referer", ""))


def _own_path(request: HttpRequest, url: str) -> str:
    """Return path and query of a URL of this host; "" for any other URL."""
    if not url_has_allowed_host_and_scheme(url, {request.get_host()}):
        return ""
    parts = urlsplit(url)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    # A path that begins with two slashes would lead to another host.
    return path if url_has_allowed_host_and_scheme(path, None) else ""
