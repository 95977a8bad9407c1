"""Secrets as they are kept: sealed with SECRET_KEY. A copy of the database alone opens nothing."""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class SecretLost(Exception):
    """The secret was sealed with a key that is no longer among SECRET_KEY and its fallbacks."""


def seal(secret: str) -> str:
    return _box().encrypt(secret.encode("ascii")).decode("ascii")


def unseal(sealed: str) -> str:
    """The secret; raises SecretLost."""
    try:
        return _box().decrypt(sealed.encode("ascii")).decode("ascii")
    except InvalidToken as error:
        raise SecretLost("what was sealed cannot be read with the present SECRET_KEY") from error


def _box() -> MultiFernet:
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return MultiFernet([Fernet(_key(each)) for each in keys])


def _key(secret_key: str) -> bytes:
    digest = hashlib.sha256(b"holdpoint.webhooks:" + secret_key.encode()).digest()
    return base64.urlsafe_b64encode(digest)
