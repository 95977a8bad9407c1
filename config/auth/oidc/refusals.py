"""Refused sign-ins: reasons for the log, explanations and advice for the page."""

from __future__ import annotations

import structlog
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from config.auth.sign_in_limits import note_failure

from .conf import options

logger = structlog.get_logger(__name__)

#: Explanation and advice by code.
_TEXTS: dict[str, tuple[str | Promise, str | Promise]] = {
    "state": (
        _("This sign-in was started in another window or too long ago."),
        _("Go back to the sign-in page and try again."),
    ),
    "cancelled": (
        _("The sign-in was cancelled."),
        _("Go back to the sign-in page if you want to try again."),
    ),
    "provider": (
        _("The sign-in service refused the request or did not answer."),
        _("Try again in a minute. If it fails again, send your administrator the number below."),
    ),
    "token": (
        _("The response of the sign-in service could not be verified."),
        _("Try again. If it fails again, send your administrator the number below."),
    ),
    "email": (
        _("The sign-in service did not confirm an allowed e-mail address."),
        _("Sign in with your work account, or ask your administrator to allow your address."),
    ),
    "inactive": (
        _("Your account is disabled."),
        _("Ask an admin to enable it."),
    ),
}
_STATUS = {"provider": 502}
#: Codes that an attacker can cause; they count against the limit of the address.
_COUNTED = ("state", "token", "email", "inactive")


class Refused(OAuth2Error):
    """The sign-in is refused with a code of `_TEXTS`; `why` is only for the log."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


def page(request: HttpRequest, code: str, why: str) -> HttpResponse:
    """Return the refusal page, and log the reason with the request id."""
    logger.warning("sign-in refused", code=code, why=why)
    if code in _COUNTED:
        note_failure(request)
    explanation, advice = _TEXTS[code]
    context = {
        "happened": explanation,
        "advice": advice,
        "provider": options().name,
        "request_id": structlog.contextvars.get_contextvars().get("request_id", ""),
    }
    status = _STATUS.get(code, 403)
    return render(request, "registration/oidc_refused.html", context, status=status)
