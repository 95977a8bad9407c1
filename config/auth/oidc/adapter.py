"""allauth's adapters: the provider, admission, and refusals."""

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
    """Account adapter without messages."""

    def add_message(self, *_: Any, **__: Any) -> None:
        """Add no message."""


class SignIns(DefaultSocialAccountAdapter):
    """Social account adapter with the one provider of the settings; SocialApp rows are ignored."""

    def list_apps(self, request: HttpRequest, provider: Any = None, client_id: Any = None) -> Any:
        oidc = options()
        return [
            SocialApp(
                provider=PROVIDER,
                provider_id=oidc.provider_id,
                name=oidc.name,
                client_id=oidc.client_id,
                secret=oidc.client_secret,
                settings={"server_url": oidc.issuer, "oauth_pkce_enabled": True},
            )
        ]

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Admit the user, or raise ImmediateHttpResponse with the refusal page."""
        try:
            nonce = str(sociallogin.claims.get("nonce") or "")
            if not hmac.compare_digest(nonce.encode(), sociallogin.state["nonce"].encode()):
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
        reason = request.GET.get("error_description") or request.GET.get("error") or ""
        raise ImmediateHttpResponse(page(request, code, str(exception or reason[:300])))
