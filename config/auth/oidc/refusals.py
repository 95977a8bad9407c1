"""Why somebody was not signed in, and what they can do about it."""

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

#: Code: what happened, what to do.
_WORDS: dict[str, tuple[str | Promise, str | Promise]] = {
    "state": (
        _("This sign-in was begun in another window, or too long ago."),
        _("Go back to the sign-in page and begin again."),
    ),
    "cancelled": (
        _("The sign-in was stopped before it was finished."),
        _("Go back to the sign-in page if you want to try again."),
    ),
    "provider": (
        _("The sign-in service refused, or did not answer."),
        _("Try again in a minute. If it stays so, tell your administrator the number below."),
    ),
    "token": (
        _("What the sign-in service sent cannot be trusted, so nobody was signed in."),
        _("Try once more. If it happens again, tell your administrator the number below."),
    ),
    "email": (
        _("The sign-in service did not confirm an e-mail address that is let in here."),
        _("Sign in there with your work account, or ask your administrator to let yours in."),
    ),
    "inactive": (
        _("Your account here is switched off."),
        _("Ask an admin to switch it on again."),
    ),
}
_STATUS = {"provider": 502}
#: Codes that an attacker could cause by guessing; the others are the issuer's or the person's.
_COUNTED = ("state", "token", "email", "inactive")


class Refused(OAuth2Error):
    """Not signed in: `code` is one of the words' above, `why` is for the log alone."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


def page(request: HttpRequest, code: str, why: str) -> HttpResponse:
    """The page for a person; the reason goes into the log with the request's id."""
    logger.warning("sign-in refused", code=code, why=why)
    if code in _COUNTED:
        # Against the limit of the address: nobody is known yet.
        note_failure(request)
    happened, advice = _WORDS[code]
    about = {
        "happened": happened,
        "advice": advice,
        "provider": options().name,
        "request_id": structlog.contextvars.get_contextvars().get("request_id", ""),
    }
    status = _STATUS.get(code, 403)
    return render(request, "registration/oidc_refused.html", about, status=status)
