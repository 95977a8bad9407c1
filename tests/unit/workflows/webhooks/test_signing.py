"""The signature: as specified, and as a receiver verifies it."""

import pytest

from tests.support.webhook_receiver import is_valid_signature
from workflows.common.secret_encryption import DecryptionFailed, decrypt, encrypt
from workflows.webhooks.signing import headers, new_secret, signature

#: The example that the libraries of Standard Webhooks test themselves with.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, AT, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNED = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def genuine(secret: str = SECRET, **changed: object) -> bool:
    told = {
        "message_id": ID, "timestamp": str(AT), "signatures": SIGNED, "body": BODY, "now": AT + 10.0
    }  # fmt: skip
    return is_valid_signature(secret, **{**told, **changed})  # type: ignore[arg-type]


def test_the_signature_equals_the_published_example() -> None:
    assert signature(SECRET, message_id=ID, timestamp=AT, body=BODY) == SIGNED


def test_a_receiver_accepts_only_the_signed_message() -> None:
    assert genuine()
    assert genuine(signatures=f"v1,other {SIGNED}")
    for changed in (
        {"body": b"{}"}, {"message_id": "msg_2"}, {"timestamp": str(AT + 1)},
        {"timestamp": "soon"}, {"signatures": ""}, {"signatures": "v1,"},
        {"now": AT + 301.0}, {"now": AT - 301.0},
    ):  # fmt: skip
        assert not genuine(**changed), changed
    assert not genuine(new_secret())


def test_every_secret_in_force_signs() -> None:
    old, new = new_secret(), new_secret()
    sent = headers((new, old), message_id=ID, timestamp=AT, body=BODY)["webhook-signature"]
    assert genuine(old, signatures=sent)
    assert genuine(new, signatures=sent)


def test_secrets_are_encrypted_and_survive_a_new_secret_key(settings) -> None:
    secret = new_secret()
    sealed = encrypt(secret)
    assert secret not in sealed
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "n" * 60, [settings.SECRET_KEY]
    assert decrypt(sealed) == secret
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(DecryptionFailed):
        decrypt(sealed)
