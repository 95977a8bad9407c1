"""Ed25519 signatures of the audit log, with a key stored outside the database.

The private key is derived from the secret HOLDPOINT_AUDIT_KEY.  A signature is the text
`KEY ID:BASE64`; a public key is the base64 of its 32 bytes, and its id the first 16 hex digits of
their SHA-256.  Without a secret nothing is signed: signatures are "".
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from typing import Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from reviews import conf

#: The purpose is part of the signed text, so a signature is valid for one purpose only.
Purpose = Literal["record", "head", "export"]


def sign(purpose: Purpose, text: str) -> str:
    """Return the signature of a text, or "" if no key is configured."""
    secret = conf.audit_key()
    if not secret:
        return ""
    signature = _private_key(secret).sign(f"holdpoint.{purpose}\n{text}".encode())
    return f"{key_id(public_key())}:{base64.b64encode(signature).decode('ascii')}"


def public_key() -> str:
    """Return the current public key, or "" if no key is configured."""
    secret = conf.audit_key()
    if not secret:
        return ""
    return base64.b64encode(_private_key(secret).public_key().public_bytes_raw()).decode("ascii")


def public_keys() -> tuple[str, ...]:
    """Return the current public key and the retired ones."""
    return tuple(dict.fromkeys(key for key in (public_key(), *conf.audit_retired_keys()) if key))


def key_id(key: str) -> str:
    """Return the id of a public key, as used in signatures."""
    return hashlib.sha256(base64.b64decode(key)).hexdigest()[:16]


# Keyed by the secret; bounded by 4; never stale: the key pair depends only on the secret.
@lru_cache(maxsize=4)
def _private_key(secret: str) -> Ed25519PrivateKey:
    seed = hashlib.sha256(b"holdpoint.audit:" + secret.encode()).digest()
    return Ed25519PrivateKey.from_private_bytes(seed)
