"""The signature of a webhook, after the Standard Webhooks specification.

Each message has three headers:

    webhook-id         equal for all attempts of a message, so that receivers can detect repeats
    webhook-timestamp  seconds since the epoch, of this attempt
    webhook-signature  `v1,<base64>`, one for each current secret, separated by spaces

The signed text is `id.timestamp.body`; the algorithm is HMAC-SHA256; the key is the base64-decoded
secret without `whsec_`. A receiver rejects a timestamp more than five minutes from now.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets as random
from collections.abc import Sequence

PREFIX = "whsec_"


def new_secret() -> str:
    """Return a new secret: `whsec_` and 32 random bytes in base64."""
    return PREFIX + base64.b64encode(random.token_bytes(32)).decode("ascii")


def signature(secret: str, *, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature `v1,<base64>` for one secret."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode("ascii")


def headers(
    secrets: Sequence[str], *, message_id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """Return the three headers, with one signature per secret."""
    signatures = [
        signature(each, message_id=message_id, timestamp=timestamp, body=body) for each in secrets
    ]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }
