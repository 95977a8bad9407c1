"""allauth's flow for one issuer, with PKCE, a nonce and a verified ID token."""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import urlsplit

from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from workflows.engine.values.bounded_json import BoundedJSONError, check_value

from .conf import options
from .options import LOOPBACK, PROVIDER
from .refusals import Refused
from .tokens import verify_id_token

_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class Issuer(OpenIDConnectOAuth2Adapter):
    """allauth's OAuth 2 adapter with verified discovery document and ID token."""

    @property
    def openid_config(self) -> dict[str, Any]:
        """Return the issuer's discovery document; raises Refused if it is invalid."""
        if not hasattr(self, "_checked_config"):
            base = options().issuer.rstrip("/")
            found = self._get_json(f"{base}/.well-known/openid-configuration")
            if str(found.get("issuer", "")).rstrip("/") != base:
                raise Refused("token", f"the discovery document is of {found.get('issuer')!r}")
            for name in _ENDPOINTS:
                _check_address(name, found.get(name))
            self._checked_config = found
        return self._checked_config

    def complete_login(self, request: HttpRequest, app: Any, token: Any, **kwargs: Any) -> Any:
        """Return a SocialLogin with the verified claims as `claims`."""
        id_token = kwargs["response"].get("id_token")
        if not isinstance(id_token, str):
            raise Refused("token", "the answer holds no ID token")
        config = self.openid_config
        claims = verify_id_token(
            id_token,
            keys=self._get_json(config["jwks_uri"]),
            issuer=config["issuer"],
            client_id=app.client_id,
        )
        claims = _checked({**self._userinfo(claims, token.token), **claims})
        login = self.get_provider().sociallogin_from_response(request, claims)
        login.claims = claims
        return login

    def _userinfo(self, claims: dict[str, Any], access_token: str) -> dict[str, Any]:
        """Return the claims of the userinfo endpoint, whose `sub` must match."""
        address = self.openid_config.get("userinfo_endpoint")
        if not address:
            return {}
        _check_address("userinfo_endpoint", address)
        found = self._get_json(address, {"Authorization": f"Bearer {access_token}"})
        if found.get("sub") != claims["sub"]:
            raise Refused("token", "the sub of the userinfo differs")
        return found

    def _get_json(self, url: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
        with get_adapter().get_requests_session() as session:
            response = session.get(url, headers=headers)
            response.raise_for_status()
            found = response.json()
        if not isinstance(found, dict):
            raise Refused("provider", f"{url} holds no object")
        return found

    def get_callback_url(self, request: HttpRequest, app: Any) -> str:
        site: str = settings.SITE_URL
        base = site.rstrip("/") if site else f"{request.scheme}://{request.get_host()}"
        return base + reverse("oidc-callback")


def _checked(claims: dict[str, Any]) -> dict[str, Any]:
    """Return the claims; raises Refused for texts that the database cannot store."""
    try:
        check_value(claims)
    except BoundedJSONError as error:
        raise Refused("token", f"a claim cannot be used: {error}") from error
    return claims


def _check_address(name: str, url: Any) -> None:
    parts = urlsplit(url if isinstance(url, str) else "")
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        raise Refused("token", f"{name} of the issuer is not an https address: {url!r}")


class Provider(OpenIDConnectProvider):
    """The configured provider."""

    id = PROVIDER
    oauth2_adapter_class = Issuer
    pkce_enabled_default = True

    def redirect(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Redirect to the issuer with a nonce that the ID token must contain."""
        nonce = secrets.token_urlsafe(24)
        kwargs |= {"auth_params": {"nonce": nonce}, "nonce": nonce}
        response: HttpResponse = super().redirect(request, *args, **kwargs)
        return response

    def get_scope(self) -> list[str]:
        return list(options().scopes)

    def extract_uid(self, data: dict[str, Any]) -> str:
        return str(data["sub"])

    def extract_extra_data(self, data: dict[str, Any]) -> dict[str, Any]:
        """Store only the issuer with the account."""
        return {"iss": data["iss"]}

    def extract_common_fields(self, data: dict[str, Any]) -> dict[str, Any]:
        return {}

    def extract_email_addresses(self, data: dict[str, Any]) -> list[Any]:
        return []


provider_classes = [Provider]
