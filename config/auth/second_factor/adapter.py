"""allauth's adapters for accounts and second factors."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter

from workflows.common.secret_encryption import decrypt, encrypt


class Accounts(DefaultAccountAdapter):
    """Account adapter without messages; the pages show the result."""

    def add_message(self, *_: Any, **__: Any) -> None:
        """Add no message."""

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        """Allow only codes once a second factor exists, so that a password cannot remove it."""
        methods: list[dict[str, Any]] = super().get_reauthentication_methods(user)
        codes = [each for each in methods if each["id"] == "mfa_reauthenticate"]
        return codes or methods


class SecondFactors(DefaultMFAAdapter):
    """Encrypt authenticator secrets with SECRET_KEY, as webhook secrets are."""

    def encrypt(self, text: str) -> str:
        return encrypt(text)

    def decrypt(self, encrypted_text: str) -> str:
        return decrypt(encrypted_text)
