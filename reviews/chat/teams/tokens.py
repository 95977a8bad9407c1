"""Tokens of requests of the Bot connector to a bot.

"Authentication with the Bot Connector API", connector to bot: the token is signed with a key of the
connector's OpenID metadata that is endorsed for the channel, and names the connector as its issuer,
the bot as its audience, and the `serviceUrl` of the activity.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt

from reviews import conf

from .connector import TeamsError, fetch_keys

CHANNEL: Final = "msteams"
_ALGORITHMS: Final = ["RS256"]
#: Differences of clocks that are tolerated: five minutes, as the documentation says.
_LEEWAY_SECONDS: Final = 300
_REQUIRED: Final = ["iss", "aud", "exp", "serviceurl"]
#: Keys are read again after a day, and at most once a minute for a key that is not known.
_KEEP_SECONDS: Final = 24 * 3600
_UNKNOWN_SECONDS: Final = 60
#: After a failure they are not read for this long: everybody can send a token with an unknown key.
_FAILED_SECONDS: Final = 30


class NotAuthentic(Exception):
    """The request does not come from the connector, or is not for this bot."""


@dataclass(frozen=True, slots=True)
class _KeySet:
    """The keys of the connector by their ids, as JSON Web Keys, and when they were read."""

    keys: Mapping[str, Mapping[str, Any]]
    read_at: float

    def answers(self, key_id: str) -> bool:
        """Whether the keys need not be read again to find this one, or to say that it is none."""
        age = time.monotonic() - self.read_at
        return age <= (_KEEP_SECONDS if key_id in self.keys else _UNKNOWN_SECONDS)


#: By the address of the metadata; replaced after `_KEEP_SECONDS`; one entry per address configured.
_cache: dict[str, _KeySet] = {}
#: When the last reading failed, and why, by the address.
_failures: dict[str, tuple[float, str]] = {}
_lock = threading.Lock()


def verify(authorization: str, *, app_id: str, activity: Mapping[str, Any]) -> None:
    """Check the token of a request for the bot; raises NotAuthentic, or TeamsError without keys."""
    if activity.get("channelId") != CHANNEL:
        raise NotAuthentic("the activity is not of the channel msteams")
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise NotAuthentic("there is no bearer token")
    try:
        claims = jwt.decode(
            token,
            key=_key_of(token),
            algorithms=_ALGORITHMS,
            issuer=conf.teams_issuer(),
            audience=app_id,
            leeway=_LEEWAY_SECONDS,
            options={"require": _REQUIRED},
        )
    except jwt.PyJWTError as error:
        raise NotAuthentic(f"{type(error).__name__}: {error}") from error
    if claims["serviceurl"] != activity.get("serviceUrl"):
        raise NotAuthentic("the token was made for another serviceUrl")


def _key_of(token: str) -> jwt.PyJWK:
    """Return the key that the token names; raises NotAuthentic if the channel may not use it."""
    key_id = jwt.get_unverified_header(token).get("kid")
    found = _find(key_id) if isinstance(key_id, str) else None
    if found is None:
        raise NotAuthentic("the connector has no key with the id of the token's")
    endorsements = found.get("endorsements")
    if not isinstance(endorsements, list) or CHANNEL not in endorsements:
        raise NotAuthentic("the key is not endorsed for the channel msteams")
    return jwt.PyJWK.from_dict(dict(found), algorithm=_ALGORITHMS[0])


def _find(key_id: str) -> Mapping[str, Any] | None:
    """Return a key of the connector, which are read (again) if it is not known or they are old."""
    address = conf.teams_openid_url()
    known = _cache.get(address)
    if known is None or not known.answers(key_id):
        # A request with a known key waits for nobody.
        with _lock:
            known = _cache.get(address)
            if known is None or not known.answers(key_id):
                known = _cache[address] = _read(address)
    return known.keys.get(key_id)


def _read(address: str) -> _KeySet:
    """Read the keys; raises TeamsError, also without trying soon after a failure."""
    failed_at, reason = _failures.get(address, (-_FAILED_SECONDS, ""))
    if time.monotonic() - failed_at < _FAILED_SECONDS and reason:
        raise TeamsError(reason)
    try:
        return _KeySet(fetch_keys(address), time.monotonic())
    except TeamsError as error:
        _failures[address] = (time.monotonic(), str(error))
        raise
