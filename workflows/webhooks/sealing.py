"""Secrets as they are kept: sealed with SECRET_KEY; a copy of the database signs nothing."""

from __future__ import annotations

import base64
import hashlib
import secrets

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

PREFIX = "whsec_"


class SecretLost(Exception):
    """The secret was sealed with a key that is no longer among SECRET_KEY and its fallbacks."""


def new_secret() -> str:
    """A secret as receivers keep it: `whsec_` and 32 random bytes in base64."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode("ascii")


def seal(secret: str) -> str:
    return _box().encrypt(secret.encode("ascii")).decode("ascii")


def unseal(sealed: str) -> str:
    """The secret; raises SecretLost."""
    try:
        return _box().decrypt(sealed.encode("ascii")).decode("ascii")
    except InvalidToken as error:
        raise SecretLost("the signing secret cannot be read with the present SECRET_KEY") from error


def _box() -> MultiFernet:
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return MultiFernet([Fernet(_key(each)) for each in keys])


def _key(secret_key: str) -> bytes:
    digest = hashlib.sha256(b"holdpoint.webhooks:" + secret_key.encode()).digest()
    return base64.urlsafe_b64encode(digest)
