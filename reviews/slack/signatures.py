"""Signatures of Slack's requests, version v0.

Slack signs `v0:<timestamp>:<body>` with the signing secret of the app and sends the result in
X-Slack-Signature.  A request that is older than five minutes is refused.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

MAX_AGE_SECONDS: Final = 300


def signature_of(secret: str, timestamp: str, body: bytes) -> str:
    """Return the value of X-Slack-Signature for a request."""
    signed = b"v0:" + timestamp.encode() + b":" + body
    return "v0=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def is_valid(secret: str, timestamp: str, signature: str, body: bytes, *, now: float) -> bool:
    """Whether Slack sent the request within the last five minutes."""
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        return False
    if abs(now - int(timestamp)) > MAX_AGE_SECONDS or not signature.isascii():
        return False
    return hmac.compare_digest(signature_of(secret, timestamp, body), signature)
