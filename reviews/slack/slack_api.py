"""Calls of Slack's Web API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from reviews import conf
from reviews.models import SlackWorkspace
from workflows.common import outbound_http
from workflows.common.secret_encryption import DecryptionFailed, decrypt
from workflows.engine.policy.permissions import PermissionSet
from workflows.webhooks.attempts import USER_AGENT, retry_after_seconds

#: Wait after a rate limit without Retry-After.
_PAUSE_SECONDS: Final = 30.0


class SlackError(Exception):
    """Slack did not do it; the text gives the reason for operators.

    `code` is Slack's error code, "" without an answer; `retry_after` the seconds to wait after a
    rate limit, else 0.
    """

    def __init__(self, message: str, *, code: str = "", retry_after: float = 0) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after


def call(
    workspace: SlackWorkspace, method: str, arguments: Mapping[str, Any], *, seconds: float
) -> dict[str, Any]:
    """Call a method of the Web API within `seconds`; raises SlackError.

    The operator sets the address of the API, so it may be a private one.
    """
    url = conf.slack_api_url().rstrip("/") + "/" + method
    try:
        target = outbound_http.parse_target(url)
        answer = outbound_http.request(
            "POST",
            url,
            grants=PermissionSet(hosts=("*", target.resource)),
            headers={
                "Authorization": f"Bearer {decrypt(workspace.bot_token)}",
                "Content-Type": "application/json; charset=utf-8",
                "User-Agent": USER_AGENT,
            },
            body=json.dumps(arguments, ensure_ascii=False).encode(),
            limits=outbound_http.NetLimits(
                connect_seconds=min(2.0, seconds),
                total_seconds=seconds,
                max_response_bytes=1 << 20,
                max_redirects=0,
            ),
        )
    except (outbound_http.NetworkDenied, outbound_http.NetworkFailed, DecryptionFailed) as error:
        raise SlackError(str(error)) from error
    return _checked(method, answer)


def _checked(method: str, answer: outbound_http.Response) -> dict[str, Any]:
    if answer.status == 429:
        wait = retry_after_seconds(answer.header("Retry-After")) or _PAUSE_SECONDS
        raise SlackError(
            f"{method}: rate limited", code="ratelimited", retry_after=min(3600.0, wait)
        )
    if not 200 <= answer.status < 300:
        raise SlackError(f"{method}: HTTP {answer.status} {answer.reason}".strip())
    try:
        content = json.loads(answer.body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise SlackError(f"{method}: the answer is no JSON object")
    if content.get("ok") is not True:
        code = str(content.get("error") or "unknown_error")[:100]
        raise SlackError(f"{method}: {code}", code=code)
    return content
