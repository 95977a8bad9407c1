"""The server's key, and subscriptions of browsers."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.asymmetric import ec
from webpush.vapid import VAPID

from reviews.decisions.edits import ReviewInvalid
from reviews.models import PushKey, PushSubscription
from workflows.common.schemas import FieldError
from workflows.common.secret_encryption import encrypt
from workflows.webhooks.addresses import url_problem

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: The row of the key.
_KEY_ID: Final = 1
#: Browsers of one person; a new one replaces the oldest.
MAX_BROWSERS: Final = 10
_AUTH_BYTES: Final = 16


def push_key() -> PushKey:
    """Return the key pair; the first call makes it."""
    known = PushKey.objects.filter(pk=_KEY_ID).first()
    if known is not None:
        return known
    private, public, application = VAPID.generate_keys()
    fields = {
        "private_key": encrypt(private.decode()),
        "public_key": public.decode(),
        "application_key": application,
    }
    # Of two processes that make one at once, the first wins.
    return PushKey.objects.get_or_create(pk=_KEY_ID, defaults=fields)[0]


def subscribe(
    *, user: User, address: str, p256dh: str, auth: str, label: str = ""
) -> PushSubscription:
    """Send the user's notices to the browser with this address.

    Raises ReviewInvalid for an address that is not public and https, or for keys of another form.
    """
    errors = []
    if problem := url_problem(address):
        errors.append(FieldError("address", problem))
    if not _is_point(p256dh):
        errors.append(FieldError("p256dh", "must be the browser's public key"))
    if len(_decoded(auth)) != _AUTH_BYTES:
        errors.append(FieldError("auth", "must be the browser's secret"))
    if errors:
        raise ReviewInvalid(errors)
    digest = hashlib.sha256(address.encode()).hexdigest()
    # A browser belongs to the person who signed in there last.
    subscription, _ = PushSubscription.objects.update_or_create(
        digest=digest,
        defaults={
            "user": user,
            "label": label.replace("\0", "")[:100],
            "address": encrypt(address),
            "keys": encrypt(json.dumps({"p256dh": p256dh, "auth": auth})),
            "last_error": "",
        },
    )
    mine = PushSubscription.objects.filter(user=user.pk)
    newest = list(mine.values_list("pk", flat=True)[:MAX_BROWSERS])
    mine.exclude(pk__in=newest).delete()
    return subscription


def unsubscribe(*, user: User, subscription_id: int) -> bool:
    """Delete one of the user's subscriptions; False if there is none."""
    return bool(PushSubscription.objects.filter(user=user.pk, pk=subscription_id).delete()[0])


def _decoded(text: str) -> bytes:
    """Return base64url without padding decoded; b"" for anything else."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return b""


def _is_point(text: str) -> bool:
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _decoded(text))
    except ValueError:
        return False
    return True
