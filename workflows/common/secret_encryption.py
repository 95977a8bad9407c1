"""Secrets as they are kept: sealed with SECRET_KEY. A copy of the database alone opens nothing."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import models


class SecretLost(Exception):
    """The secret was sealed with a key that is no longer among SECRET_KEY and its fallbacks."""


def seal(secret: str) -> str:
    """`secret`, encrypted; the result is ASCII."""
    return _box().encrypt(secret.encode()).decode("ascii")


def unseal(sealed: str) -> str:
    """The secret; raises SecretLost."""
    try:
        return _box().decrypt(sealed.encode("ascii")).decode()
    except (InvalidToken, UnicodeEncodeError) as error:
        raise SecretLost("what was sealed cannot be read with the present SECRET_KEY") from error


class LostText(str):
    """A sealed text that the present keys do not open, as it is stored."""


class SealedTexts(models.JSONField):
    """An object of texts whose values are encrypted in the database; names stay readable.

    In Python the values are plain. A value that cannot be opened is a `LostText`, which is stored
    again as it was: whoever needs the secret says that it is lost.
    """

    def get_db_prep_save(self, value: Any, connection: Any) -> Any:
        if isinstance(value, dict):
            value = {name: _sealed(text) for name, text in value.items()}
        return super().get_db_prep_save(value, connection)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        stored = super().from_db_value(value, expression, connection)
        if not isinstance(stored, dict):
            return stored
        return {name: _opened(str(text)) for name, text in stored.items()}


def _sealed(text: str) -> str:
    return str(text) if isinstance(text, LostText) else seal(str(text))


def _opened(text: str) -> str:
    try:
        return unseal(text)
    except SecretLost:
        return LostText(text)


def _box() -> MultiFernet:
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return MultiFernet([Fernet(_key(each)) for each in keys])


def _key(secret_key: str) -> bytes:
    digest = hashlib.sha256(b"holdpoint.webhooks:" + secret_key.encode()).digest()
    return base64.urlsafe_b64encode(digest)
