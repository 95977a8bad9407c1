"""Encrypt secrets for storage with a key derived from SECRET_KEY.

A copy of the database is not enough to read them.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import models


class DecryptionFailed(Exception):
    """The secret was encrypted with a key that is not in SECRET_KEY or SECRET_KEY_FALLBACKS."""


def encrypt(secret: str) -> str:
    """Return `secret` encrypted, as ASCII text."""
    return _fernet().encrypt(secret.encode()).decode("ascii")


def decrypt(encrypted: str) -> str:
    """Return the secret; raise DecryptionFailed if no current key decrypts it."""
    try:
        return _fernet().decrypt(encrypted.encode("ascii")).decode()
    except (InvalidToken, UnicodeEncodeError) as error:
        message = "the stored secret cannot be decrypted with the current SECRET_KEY"
        raise DecryptionFailed(message) from error


class UndecryptedText(str):
    """A stored ciphertext that no current key decrypts."""


class EncryptedTexts(models.JSONField):
    """A JSON object of texts whose values are encrypted in the database; keys stay readable.

    Python code sees plain values. A value that cannot be decrypted is loaded as an
    `UndecryptedText` and saved unchanged; code that needs the secret has to report the error.
    """

    def get_db_prep_save(self, value: Any, connection: Any) -> Any:
        if isinstance(value, dict):
            value = {name: _encrypt_value(text) for name, text in value.items()}
        return super().get_db_prep_save(value, connection)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        stored = super().from_db_value(value, expression, connection)
        if not isinstance(stored, dict):
            return stored
        return {name: _decrypt_value(str(text)) for name, text in stored.items()}


def _encrypt_value(text: str) -> str:
    return str(text) if isinstance(text, UndecryptedText) else encrypt(str(text))


def _decrypt_value(text: str) -> str:
    try:
        return decrypt(text)
    except DecryptionFailed:
        return UndecryptedText(text)


def _fernet() -> MultiFernet:
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return MultiFernet([Fernet(_fernet_key(each)) for each in keys])


def _fernet_key(secret_key: str) -> bytes:
    # Changing this prefix would make every stored secret unreadable.
    digest = hashlib.sha256(b"holdpoint.webhooks:" + secret_key.encode()).digest()
    return base64.urlsafe_b64encode(digest)
