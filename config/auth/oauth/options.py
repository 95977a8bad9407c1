"""Settings of django-oauth-toolkit: the authorization code grant with PKCE, nothing else."""

from typing import Any

#: Scopes that a client can ask for, with the sentence of the consent page.  The other scopes of
#: tokens are given only to tokens that a person makes.
SCOPES = {
    "read": "See your runs, reviews, workflows and tools",
    "run": "Start runs and steer those you may steer",
    "ask": "Ask people to approve its actions",
    "gate": "Call tools through MCP gates in your name",
    "decide": "Decide reviews in your name",
}
_HOUR, _DAY = 3600, 86_400
#: Models of the toolkit without pages in the admin.
_NO_PAGES = ("ACCESS_TOKEN", "GRANT", "ID_TOKEN", "REFRESH_TOKEN")


def options() -> dict[str, Any]:
    """The setting OAUTH2_PROVIDER."""
    return {
        "SCOPES": SCOPES,
        "DEFAULT_SCOPES": ["read"],
        "OAUTH2_VALIDATOR_CLASS": "config.auth.oauth.validator.OAuthValidator",
        "ACCESS_TOKEN_GENERATOR": "config.auth.oauth.validator.new_access_token",
        "ACCESS_TOKEN_EXPIRE_SECONDS": _HOUR,
        "REFRESH_TOKEN_EXPIRE_SECONDS": 30 * _DAY,
        "REFRESH_TOKEN_REUSE_PROTECTION": True,
        "PKCE_REQUIRED": True,
        # Native clients listen on a loopback address over http; `clients.RegistrationAllowed`
        # and the form of the admin refuse http to any other host.
        "ALLOWED_REDIRECT_URI_SCHEMES": ["https", "http"],
        "ALLOW_LOCALHOST_LOOPBACK": True,
        "DCR_ENABLED": True,
        "DCR_REGISTRATION_PERMISSION_CLASSES": ("config.auth.oauth.clients.RegistrationAllowed",),
        "CIMD_ENABLED": True,
        "CIMD_REGISTRATION_PERMISSION_CLASSES": ("config.auth.oauth.clients.DocumentAllowed",),
        "OAUTH2_RESPONSE_TYPES_SUPPORTED": ["code"],
        "OAUTH2_GRANT_TYPES_SUPPORTED": ["authorization_code", "refresh_token"],
        "OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED": [
            "none",
            "client_secret_post",
            "client_secret_basic",
        ],
        "OAUTH2_PROTECTED_RESOURCE_NAME": "Holdpoint",
        "APPLICATION_ADMIN_CLASS": "config.auth.oauth.admin.ClientAdmin",
        **{f"{name}_ADMIN_CLASS": "config.auth.oauth.admin.NoPages" for name in _NO_PAGES},
        # RFC 9700: no implicit or password grant, no plain PKCE, tokens stored as digests.
        "COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT": True,
        "COMPLIANT_BCP_RFC9700_PASSWORD_GRANT": True,
        "COMPLIANT_BCP_RFC9700_PKCE_METHOD": True,
        "COMPLIANT_BCP_RFC9700_ACCESS_TOKEN_TRANSPORT": True,
        "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": True,
        "COMPLIANT_BCP_RFC9700_TOKEN_STORAGE": True,
        "COMPLIANT_BCP_RFC9700_REFRESH_TOKEN": True,
        "COMPLIANT_BCP_RFC9700_REDIRECT_URI_MATCHING": True,
        "COMPLIANT_BCP_RFC9700_PKCE_REQUIRED": True,
    }
