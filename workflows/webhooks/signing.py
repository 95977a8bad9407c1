"""The signature of a webhook, as the Standard Webhooks specification has it.

Three headers come with each message:

    webhook-id         the same for every try of a message: receivers use it to do things once
    webhook-timestamp  seconds since the epoch, at this try
    webhook-signature  `v1,<base64>`, one for each secret in force, separated by spaces

What is signed is `id.timestamp.body`, with HMAC-SHA256 under the bytes that the secret holds in
base64 behind `whsec_`.  A receiver refuses a timestamp that is more than five minutes off.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets as random
from collections.abc import Sequence

PREFIX = "whsec_"
REPLAY_WINDOW_SECONDS = 300


def new_secret() -> str:
    """A secret as receivers keep it: `whsec_` and 32 random bytes in base64."""
    return PREFIX + base64.b64encode(random.token_bytes(32)).decode("ascii")


def signature(secret: str, *, message_id: str, timestamp: int, body: bytes) -> str:
    """`v1,<base64>` for one secret."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode("ascii")


def headers(
    secrets: Sequence[str], *, message_id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """The three headers; every secret signs."""
    made = [
        signature(each, message_id=message_id, timestamp=timestamp, body=body) for each in secrets
    ]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(made),
    }


def is_valid_signature(
    secret: str, *, message_id: str, timestamp: str, signatures: str, body: bytes, now: float
) -> bool:
    """Whether a message is ours and not an old one sent again: what a receiver asks."""
    if not timestamp.isascii() or not timestamp.isdigit():
        return False
    if abs(now - int(timestamp)) > REPLAY_WINDOW_SECONDS:
        return False
    wanted = signature(secret, message_id=message_id, timestamp=int(timestamp), body=body)
    return any(hmac.compare_digest(wanted, each) for each in signatures.split())
