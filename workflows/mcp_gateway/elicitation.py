"""Sending a person to the review page through the client, where it can do that.

Since protocol 2026-07-28 a call may be answered with `input_required`: here the request to open an
address.  The client shows it, sends the call again, and the call waits for the decision.  What it
carries between the two is sealed by the SDK with a key that every process derives from SECRET_KEY.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils.crypto import salted_hmac
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types import (
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from workflows import conf

from .callers import Caller
from .calls import CallResult
from .outputs import Answer

#: How long somebody may take between the page and the call that comes back.
_LASTS_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Returned:
    """A call that comes back: what it did the first time, and which holds were shown."""

    acted: CallResult
    asked: tuple[str, ...]
    accepted: bool


def boundary(caller_of: Callable[[Any], Caller]) -> RequestStateBoundary:
    """Seals what travels, for one user, on any process, whatever key of the ring it had."""
    secrets = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    keys = [
        salted_hmac("holdpoint.mcp.request-state", "", secret=each, algorithm="sha256").digest()
        for each in dict.fromkeys(secrets)
    ]
    security = RequestStateSecurity(
        keys=keys, ttl=_LASTS_SECONDS, bind_principal=lambda ctx: f"user {caller_of(ctx).user_id}"
    )
    return RequestStateBoundary(security, default_audience="holdpoint")


def opens_pages(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client can take a person to an address in the middle of a call."""
    told = ctx.session.client_capabilities
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    asks = told is not None and told.elicitation is not None and told.elicitation.url is not None
    return modern and asks and bool(conf.site_url())


def question(
    answer: Answer, acted: CallResult, asked: Collection[str]
) -> InputRequiredResult | None:
    """The pages to open for holds that were not shown yet; None when there is none."""
    fresh = [each for each in answer.approvals if each.hold_id not in asked]
    if answer.status != "approval_required" or not fresh:
        return None
    state = {
        "workflow": acted.workflow_id,
        "since": acted.since,
        "command": acted.command,
        "starts": acted.starts,
        "asked": [*asked, *(each.hold_id for each in fresh)],
    }
    return InputRequiredResult(
        input_requests={
            each.hold_id: ElicitRequest(
                params=ElicitRequestURLParams(
                    message=f"“{answer.title}” needs a decision: {each.why}", url=each.review_url
                )
            )
            for each in fresh
        },
        request_state=json.dumps(state),
    )


def returned(params: CallToolRequestParams) -> Returned | None:
    """What a call that comes back carries; None for a first call."""
    if params.request_state is None:
        return None
    state = json.loads(params.request_state)
    given = (params.input_responses or {}).values()
    accepted = any(isinstance(each, ElicitResult) and each.action == "accept" for each in given)
    acted = CallResult(
        state["workflow"],
        since=state["since"],
        command=state["command"],
        starts=state.get("starts", False),
    )
    return Returned(acted, tuple(state["asked"]), accepted=accepted)
