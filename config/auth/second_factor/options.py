"""Settings of second factors.  Does not import Django apps."""

from __future__ import annotations

import importlib.util
from typing import Any

from django.core.exceptions import ImproperlyConfigured

_APPS = ("allauth", "allauth.account", "allauth.mfa", "config.auth.second_factor")
_MIDDLEWARE = "allauth.account.middleware.AccountMiddleware"


def add_to(settings: dict[str, Any]) -> None:
    """Enable second factors in the namespace of a settings module; raises ImproperlyConfigured."""
    missing = [name for name in ("allauth", "qrcode", "fido2") if not _installed(name)]
    if missing:
        raise ImproperlyConfigured(
            "HOLDPOINT_STEP_UP is set, and the extra that it needs is not installed:"
            " uv pip install -c requirements/production.txt -r pyproject.toml --extra mfa"
        )
    installed = settings["INSTALLED_APPS"]
    installed += [app for app in _APPS if app not in installed]
    if _MIDDLEWARE not in settings["MIDDLEWARE"]:
        settings["MIDDLEWARE"].insert(-1, _MIDDLEWARE)
    settings["ACCOUNT_ADAPTER"] = "config.auth.second_factor.adapter.Accounts"
    settings.setdefault("ACCOUNT_EMAIL_VERIFICATION", "none")
    settings["MFA_ADAPTER"] = "config.auth.second_factor.adapter.SecondFactors"
    settings["MFA_SUPPORTED_TYPES"] = ["totp", "recovery_codes"]
    settings["MFA_RECOVERY_CODES_SHOW_ONCE"] = True
    settings["MFA_TOTP_ISSUER"] = "Holdpoint"
    settings["MFA_TOTP_TOLERANCE"] = 1  # periods of 30 s: phone clocks differ
    settings["MFA_FORMS"] = {
        "authenticate": "config.auth.second_factor.forms.SignInCodeForm",
        "reauthenticate": "config.auth.second_factor.forms.ConfirmForm",
    }
    # A code is valid once for all web processes: allauth stores used codes in the cache.
    settings["CACHES"] = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": settings["REDIS_URL"],
            "KEY_PREFIX": "holdpoint",
            "OPTIONS": {"serializer": "config.auth.second_factor.json_cache.JSONSerializer"},
        }
    }


def _installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None
