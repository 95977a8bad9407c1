"""Where allauth asks us: which provider there is, who may come in, what is said when not."""

from __future__ import annotations

import hmac
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.base import AuthError
from django.http import HttpRequest

from .admission import admit
from .conf import options
from .options import PROVIDER
from .refusals import Refused, page


class Accounts(DefaultAccountAdapter):
    """Says nothing on its own."""

    def add_message(self, *_: Any, **__: Any) -> None:
        """The queue is greeting enough."""


class SignIns(DefaultSocialAccountAdapter):
    """One provider, from the settings; rows of allauth's own configuration are not looked at."""

    def list_apps(self, request: HttpRequest, provider: Any = None, client_id: Any = None) -> Any:
        ours = options()
        return [
            SocialApp(
                provider=PROVIDER,
                provider_id=ours.provider_id,
                name=ours.name,
                client_id=ours.client_id,
                secret=ours.client_secret,
                settings={"server_url": ours.issuer, "oauth_pkce_enabled": True},
            )
        ]

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Let the person in, or raise ImmediateHttpResponse with the page that says why not."""
        try:
            sent = str(sociallogin.claims.get("nonce") or "")
            if not hmac.compare_digest(sent.encode(), sociallogin.state["nonce"].encode()):
                raise Refused("token", "the nonce is not the one of this sign-in")
            sociallogin.user = admit(sociallogin.account, sociallogin.claims)
        except Refused as refused:
            raise ImmediateHttpResponse(page(request, refused.code, str(refused))) from refused

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Exception | None = None,
        extra_context: dict[str, Any] | None = None,
    ) -> None:
        code = "provider"
        if isinstance(exception, Refused):
            code = exception.code
        elif error == AuthError.CANCELLED:
            code = "cancelled"
        elif exception is None and "state" not in (extra_context or {}):
            code = "state"
        said = request.GET.get("error_description") or request.GET.get("error") or ""
        raise ImmediateHttpResponse(page(request, code, str(exception or said[:300])))
