"""An authentication backend for installations without password sign-in."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.http import HttpRequest


class NoPasswords(ModelBackend):
    """ModelBackend's permissions without password sign-in."""

    def authenticate(self, request: HttpRequest | None, *_: Any, **__: Any) -> None:
        """Authenticate no one."""

    async def aauthenticate(self, request: HttpRequest | None, *_: Any, **__: Any) -> None:
        """Authenticate no one."""
