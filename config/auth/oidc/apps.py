"""The app of the optional sign-in; it has no tables of its own."""

from django.apps import AppConfig


class OidcConfig(AppConfig):
    """Signing in through OpenID Connect."""

    name = "config.auth.oidc"
    label = "holdpoint_oidc"
    verbose_name = "Sign-in through OpenID Connect"
