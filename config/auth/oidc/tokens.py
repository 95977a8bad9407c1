"""Verify the ID token (OpenID Connect Core 1.0, section 3.1.3.7).

allauth does not check the signature of a token from the token endpoint, as the specification
allows; this module checks it.
"""

from __future__ import annotations

from typing import Any

import jwt

from .refusals import Refused

#: Asymmetric algorithms only: `none` and the client secret as a key are refused.
ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
_LEEWAY_SECONDS = 60
_REQUIRED = ["iss", "sub", "aud", "exp", "iat"]


def verify_id_token(token: str, *, keys: Any, issuer: str, client_id: str) -> dict[str, Any]:
    """Return the claims of a valid ID token; `keys` is the issuer's JWK set.  Raises Refused."""
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            key=_key(token, keys),
            algorithms=list(ALGORITHMS),
            issuer=issuer,
            audience=client_id,
            leeway=_LEEWAY_SECONDS,
            options={"require": _REQUIRED},
        )
    except jwt.PyJWTError as error:
        raise Refused("token", f"{type(error).__name__}: {error}") from error
    _check_party(claims, client_id)
    return claims


def _check_party(claims: dict[str, Any], client_id: str) -> None:
    """Check `azp`: required with several audiences, and must be this client."""
    audience = claims["aud"]
    party = claims.get("azp")
    if (isinstance(audience, list) and len(audience) > 1 and party is None) or (
        party is not None and party != client_id
    ):
        raise Refused("token", f"made for {party!r}, not for this client")


def _key(token: str, keys: Any) -> Any:
    """Return the issuer's key with the token's `kid`, or its only key without a `kid`."""
    header = jwt.get_unverified_header(token)
    try:
        known = jwt.PyJWKSet.from_dict(keys).keys
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Refused("token", f"the issuer's keys cannot be read: {error!r}") from error
    wanted = header.get("kid")
    matching = [
        each for each in known
        if each.public_key_use in (None, "sig") and wanted in (None, each.key_id)
    ]  # fmt: skip
    if len(matching) != 1:
        raise Refused("token", f"{len(matching)} keys of the issuer match the key id {wanted!r}")
    return matching[0]
