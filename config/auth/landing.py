"""The first page of each role after the sign-in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.http import HttpRequest, HttpResponseRedirect
from django.shortcuts import resolve_url
from django.urls import reverse

from workflows.executions.access import ADMIN, AUDITOR, INTEGRATOR, OPERATOR, roles_of

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Role → name of its page; the first role of a person counts.  All others decide reviews.
_PAGES = {
    OPERATOR: "reviews:runs",
    AUDITOR: "reviews:history",
    INTEGRATOR: "reviews:runs",
}


def landing_page(user: User) -> str:
    """Return the URL of the page on which the user's work begins."""
    roles = roles_of(user)
    if ADMIN in roles and user.is_staff:
        return reverse("admin:index")
    name = next((page for role, page in _PAGES.items() if role in roles), "reviews:queue")
    return reverse(name)


def home(request: HttpRequest) -> HttpResponseRedirect:
    """Redirect to the user's landing page, or to the sign-in page."""
    if request.user.is_authenticated:
        return HttpResponseRedirect(landing_page(request.user))
    return HttpResponseRedirect(resolve_url(settings.LOGIN_URL))
