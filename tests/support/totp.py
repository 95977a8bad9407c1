"""The codes of an authenticator app."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct


def totp(key: str, at: float) -> str:
    """The code of RFC 6238 that an authenticator app shows at this moment."""
    secret = base64.b32decode(key + "=" * (-len(key) % 8))
    counter = struct.pack(">Q", int(at // 30))
    digest = hmac.new(secret, counter, hashlib.sha1).digest()
    start = digest[-1] & 15
    (number,) = struct.unpack(">I", digest[start : start + 4])
    return f"{(number & 0x7FFFFFFF) % 1_000_000:06d}"
