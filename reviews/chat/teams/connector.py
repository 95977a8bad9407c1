"""Calls of the services of the Bot Framework: keys, access tokens, and messages to Teams."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from reviews import conf
from reviews.models import TeamsAccount, TeamsBot
from workflows.common import outbound_http
from workflows.common.secret_encryption import DecryptionFailed, decrypt
from workflows.engine.permissions import PermissionSet, parse_address
from workflows.webhooks.attempts import USER_AGENT, retry_after_seconds

#: Wait after a rate limit without Retry-After.
_PAUSE_SECONDS: Final = 30.0
#: An access token is renewed this long before it ends.
_EARLY_SECONDS: Final = 300.0
_KEYS_SECONDS: Final = 5.0

#: By bot, its secret and the address of the sign-in service: the access token and the time when it
#: is renewed.  A bot has one entry; a refused token is removed.
_tokens: dict[int, tuple[tuple[str, ...], str, float]] = {}


class TeamsError(Exception):
    """A service did not do it; the text gives the reason for operators.

    `status` is the HTTP status, 0 without an answer; `retry_after` the seconds to wait after a rate
    limit, else 0.
    """

    def __init__(self, message: str, *, status: int = 0, retry_after: float = 0) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


def fetch_keys(address: str) -> dict[str, dict[str, Any]]:
    """Return the keys of an OpenID metadata document by their ids; raises TeamsError."""
    metadata = _call("GET", address, seconds=_KEYS_SECONDS)
    location = metadata.get("jwks_uri")
    if not isinstance(location, str):
        raise TeamsError("the OpenID metadata has no jwks_uri")
    found = _call("GET", location, seconds=_KEYS_SECONDS).get("keys")
    keys = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    return {each["kid"]: each for each in keys if isinstance(each.get("kid"), str)}


def access_token(bot: TeamsBot, *, seconds: float) -> str:
    """Return a token with which the bot calls the connector; raises TeamsError."""
    url = f"{conf.teams_login_url().rstrip('/')}/{quote(bot.tenant_id, safe='')}/oauth2/v2.0/token"
    made_of = (bot.app_id, bot.client_secret, url)
    known = _tokens.get(bot.pk)
    if known is not None and known[0] == made_of and time.monotonic() < known[2]:
        return known[1]
    try:
        secret = decrypt(bot.client_secret)
    except DecryptionFailed as error:
        raise TeamsError(str(error)) from error
    form = {
        "grant_type": "client_credentials",
        "client_id": bot.app_id,
        "client_secret": secret,
        "scope": f"{conf.teams_issuer()}/.default",
    }
    answer = _call(
        "POST",
        url,
        body=urlencode(form).encode(),
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        seconds=seconds,
    )
    token, lifetime = answer.get("access_token"), answer.get("expires_in")
    if not isinstance(token, str) or not isinstance(lifetime, int):
        raise TeamsError("the sign-in service gave no access token")
    _tokens[bot.pk] = (made_of, token, time.monotonic() + lifetime - _EARLY_SECONDS)
    return token


def check_secret(bot: TeamsBot, *, seconds: float) -> None:
    """Ask for a new access token; raises TeamsError."""
    _tokens.pop(bot.pk, None)
    access_token(bot, seconds=seconds)


def send(
    bot: TeamsBot,
    account: TeamsAccount,
    activity: Mapping[str, Any],
    *,
    seconds: float,
    replaces: str = "",
) -> str:
    """Post a message to the account's chat, or update the one with the id `replaces`.

    Returns the message's id; raises TeamsError.
    """
    return post(
        bot,
        account.service_url,
        account.conversation,
        activity,
        seconds=seconds,
        replaces=replaces,
    )


def post(
    bot: TeamsBot,
    service_url: str,
    conversation: str,
    activity: Mapping[str, Any],
    *,
    seconds: float,
    replaces: str = "",
) -> str:
    """Post a message to a chat, see `send`.

    The bot's access token goes only to addresses below the configured one.
    """
    if not service_url.startswith(f"{conf.teams_service_url().rstrip('/')}/"):
        raise TeamsError(f"{service_url} is not below HOLDPOINT_TEAMS_SERVICE_URL")
    base = f"{service_url.rstrip('/')}/v3/conversations/{quote(conversation, safe='')}/activities"
    token = access_token(bot, seconds=seconds)
    try:
        answer = _call(
            "PUT" if replaces else "POST",
            f"{base}/{quote(replaces, safe='')}" if replaces else base,
            body=json.dumps(activity, ensure_ascii=False).encode(),
            headers={
                "Authorization": f"Bearer {token}",
                "Content-Type": "application/json; charset=utf-8",
            },
            seconds=seconds,
        )
    except TeamsError as error:
        if error.status == 401:
            _tokens.pop(bot.pk, None)
        raise
    return replaces or str(answer.get("id", ""))


def _call(
    method: str,
    url: str,
    *,
    seconds: float,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Make a request and return the JSON object of its answer, {} for none; raises TeamsError.

    The operator sets the addresses, so they may be private ones; all but loopback need https.
    """
    try:
        target = outbound_http.parse_target(url)
        if target.scheme != "https" and not _is_loopback(target.host):
            raise TeamsError(f"{target.resource}: the address must begin with https://")
        answer = outbound_http.request(
            method,
            url,
            grants=PermissionSet(hosts=("*", target.resource)),
            headers={"User-Agent": USER_AGENT, **(headers or {})},
            body=body,
            limits=outbound_http.NetLimits(
                connect_seconds=min(2.0, seconds),
                total_seconds=seconds,
                max_response_bytes=1 << 20,
                max_redirects=0,
            ),
        )
    except (outbound_http.NetworkDenied, outbound_http.NetworkFailed) as error:
        raise TeamsError(str(error)) from error
    return _checked(target.resource, answer)


def _is_loopback(host: str) -> bool:
    address = parse_address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _checked(name: str, answer: outbound_http.Response) -> dict[str, Any]:
    if answer.status == 429:
        wait = retry_after_seconds(answer.header("Retry-After")) or _PAUSE_SECONDS
        raise TeamsError(f"{name}: rate limited", status=429, retry_after=min(3600.0, wait))
    if not 200 <= answer.status < 300:
        text = f"{name}: HTTP {answer.status} {_error_code(answer)}".strip()
        raise TeamsError(text, status=answer.status)
    if not answer.body.strip():
        return {}
    try:
        content = json.loads(answer.body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise TeamsError(f"{name}: the answer is no JSON object")
    return content


def _error_code(answer: outbound_http.Response) -> str:
    """Return the code of an error of the connector or of the sign-in service, or the reason."""
    try:
        error = json.loads(answer.body)["error"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return answer.reason
    code = error.get("code") if isinstance(error, dict) else error
    return str(code)[:100]
