"""The options in force, for what runs only when the sign-in is on."""

from __future__ import annotations

from django.conf import settings

from .options import Options


def options() -> Options:
    """`settings.OIDC`, which is there wherever this app is installed."""
    found: Options | None = settings.OIDC
    assert found is not None, "config.auth.oidc is installed without options"  # noqa: S101
    return found
