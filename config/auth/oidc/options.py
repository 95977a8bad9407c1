"""Options of OpenID Connect sign-in.  Does not import allauth, which is optional."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from config.settings.topics import OpenId

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
PROVIDER = "oidc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the issuer.

    `groups` are (name in the claim, group name) pairs; `domains` are lower-case, and an empty tuple
    allows all addresses.
    """

    issuer: str
    client_id: str
    client_secret: str
    name: str
    scopes: tuple[str, ...]
    groups_claim: str
    groups: tuple[tuple[str, str], ...]
    domains: tuple[str, ...]

    @property
    def provider_id(self) -> str:
        """Stored with accounts: equal `sub` values of two issuers are different users."""
        return f"oidc-{hashlib.sha256(self.issuer.encode()).hexdigest()[:16]}"


def options_of(values: OpenId) -> Options | None:
    """Return the options, or None when disabled; raises ImproperlyConfigured.

    Without password sign-in an issuer is required.
    """
    issuer = values.oidc_issuer
    if not issuer and not values.password_login:
        raise ImproperlyConfigured(
            "HOLDPOINT_PASSWORD_LOGIN=0 needs HOLDPOINT_OIDC_ISSUER: nobody could sign in."
        )
    if not issuer:
        return None
    _check_issuer(issuer)
    if importlib.util.find_spec("allauth") is None:
        raise ImproperlyConfigured(
            "HOLDPOINT_OIDC_ISSUER is set, and the extra that it needs is not installed:"
            " uv pip install -c requirements/production.txt -r pyproject.toml --extra oidc"
        )
    for name in ("client_id", "client_secret"):
        if not getattr(values, f"oidc_{name}"):
            raise ImproperlyConfigured(f"HOLDPOINT_OIDC_{name.upper()} is not set.")
    return Options(
        issuer=issuer,
        client_id=values.oidc_client_id,
        client_secret=values.oidc_client_secret,
        name=values.oidc_name,
        scopes=tuple(values.oidc_scopes),
        groups_claim=values.oidc_groups_claim,
        groups=_mapping(values.oidc_groups),
        domains=tuple(each.lower() for each in values.oidc_email_domains),
    )


def _check_issuer(issuer: str) -> None:
    parts = urlsplit(issuer)
    safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
    if not safe or not parts.hostname or parts.query or parts.fragment:
        raise ImproperlyConfigured(
            f"HOLDPOINT_OIDC_ISSUER={issuer!r} is not an https address without a query."
        )


def _mapping(entries: list[str]) -> tuple[tuple[str, str], ...]:
    """Parse `THEIRS:OURS` entries; the last colon separates, so issuer names may contain colons."""
    pairs = []
    for entry in entries:
        theirs, _, ours = entry.rpartition(":")
        if not theirs or not ours:
            raise ImproperlyConfigured(f"HOLDPOINT_OIDC_GROUPS: {entry!r} is not THEIRS:OURS.")
        pairs.append((theirs, ours))
    return tuple(pairs)


def add_to(settings: dict[str, Any], options: Options) -> None:
    """Enable OpenID Connect in the namespace of a settings module."""
    settings["INSTALLED_APPS"] += ["allauth", "allauth.account", "allauth.socialaccount"]
    settings["INSTALLED_APPS"] += ["config.auth.oidc"]
    settings["MIDDLEWARE"].insert(-1, "allauth.account.middleware.AccountMiddleware")
    settings["SOCIALACCOUNT_ADAPTER"] = "config.auth.oidc.adapter.SignIns"
    settings["ACCOUNT_ADAPTER"] = "config.auth.oidc.adapter.Accounts"
    # Users are never matched by e-mail address, and allauth stores none.
    settings["ACCOUNT_EMAIL_VERIFICATION"] = "none"
    settings["SOCIALACCOUNT_EMAIL_AUTHENTICATION"] = False
    settings["SOCIALACCOUNT_STORE_TOKENS"] = False
