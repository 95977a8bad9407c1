"""Signing in with a password, and doing without."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.http import HttpRequest


class NoPasswords(ModelBackend):
    """Rights as ever, and no password opens anything: not here, and not in the admin."""

    def authenticate(self, request: HttpRequest | None, *_: Any, **__: Any) -> None:
        """Nobody."""

    async def aauthenticate(self, request: HttpRequest | None, *_: Any, **__: Any) -> None:
        """Nobody."""
