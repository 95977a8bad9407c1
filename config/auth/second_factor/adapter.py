"""Where allauth asks us about accounts and second factors."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter

from workflows.common.secret_encryption import decrypt, encrypt


class Accounts(DefaultAccountAdapter):
    """Shows no messages of its own; the pages say what happened."""

    def add_message(self, *_: Any, **__: Any) -> None:
        """Nothing."""

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        """A code once there is a second factor: a password does not remove the factor."""
        methods: list[dict[str, Any]] = super().get_reauthentication_methods(user)
        codes = [each for each in methods if each["id"] == "mfa_reauthenticate"]
        return codes or methods


class SecondFactors(DefaultMFAAdapter):
    """Secrets of authenticators are encrypted with SECRET_KEY, as webhook secrets are."""

    def encrypt(self, text: str) -> str:
        return encrypt(text)

    def decrypt(self, encrypted_text: str) -> str:
        return decrypt(encrypted_text)
