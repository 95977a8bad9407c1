"""Access to `settings.OIDC` for modules that run only when OpenID Connect is enabled."""

from __future__ import annotations

from django.conf import settings

from .options import Options


def options() -> Options:
    """Return `settings.OIDC`, which is set wherever this app is installed."""
    current: Options | None = settings.OIDC
    assert current is not None, "config.auth.oidc is installed without options"  # noqa: S101
    return current
