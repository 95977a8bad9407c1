"""Authenticate REST requests by `Authorization: Bearer hp_…`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, Throttled
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from structlog.contextvars import bind_contextvars

from workflows import conf
from workflows.common.client_address import address_of
from workflows.models import ApiToken
from workflows.permissions.tokens import authenticate_token
from workflows.permissions.unknown_token_limit import count_unknown_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

__all__ = ["TokenAuthentication", "authenticate_token"]


class TokenAuthentication(BaseAuthentication):
    """Authenticate by API token; `request.auth` is the ApiToken.

    Other schemes are left to other authentication classes. An unusable token is a 401 that does not
    say why, and a 429 after too many unknown tokens from one address.
    """

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, rest = get_authorization_header(request).strip().partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        try:
            token = authenticate_token(
                rest.strip().decode("ascii"), reading=_reads_groups_once(request)
            )
        except UnicodeDecodeError:
            token = None
        if token is None:
            wait = count_unknown_token(address_of(request))
            if wait:
                raise Throttled(wait=wait, detail="Too many unknown tokens from this address.")
            raise AuthenticationFailed("This token is not valid; it may be expired or revoked.")
        bind_contextvars(user=token.user.get_username(), token=token.prefix)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return bearer_challenge()


def _reads_groups_once(request: Request) -> bool:
    """Whether the groups read with the token count for the whole request.

    They do for requests that only read, and for views that set `reads_groups_once`.
    """
    if request.method in SAFE_METHODS:
        return True
    return bool(getattr(request.parser_context.get("view"), "reads_groups_once", False))


def bearer_challenge(resource: str = "") -> str:
    """Return the WWW-Authenticate header of a 401; with OAuth it names the metadata (RFC 9728)."""
    if not settings.OAUTH:
        return 'Bearer realm="holdpoint"'
    address = f"{conf.site_url().rstrip('/')}/.well-known/oauth-protected-resource"
    address = f"{address}/{resource}" if resource else address
    return f'Bearer realm="holdpoint", resource_metadata="{address}"'
