"""Ask the client to open the review page for a person, if the client supports it.

Since protocol 2026-07-28 a server may answer a call with `input_required`, here a request to open a
URL. The client shows it and sends the call again, and that call waits for the decision. The SDK
encrypts the state between the two calls with a key that every process derives from SECRET_KEY.
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

from .authentication import Caller
from .commands import CallResult
from .result_models import Answer

#: How long the state is valid: the time a person has before the client repeats the call.
_STATE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """A call that the client repeats: its first result, and the holds already shown."""

    result: CallResult
    shown_holds: tuple[str, ...]
    accepted: bool


def request_state_boundary(caller_of: Callable[[Any], Caller]) -> RequestStateBoundary:
    """Return middleware that encrypts the state for one user.

    Any process decrypts it, also with one of SECRET_KEY_FALLBACKS.
    """
    secrets = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    keys = [
        salted_hmac("holdpoint.mcp.request-state", "", secret=each, algorithm="sha256").digest()
        for each in dict.fromkeys(secrets)
    ]
    security = RequestStateSecurity(
        keys=keys, ttl=_STATE_SECONDS, bind_principal=lambda ctx: f"user {caller_of(ctx).user_id}"
    )
    return RequestStateBoundary(security, default_audience="holdpoint")


def supports_url_elicitation(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client can open a URL for a person during a call."""
    capabilities = ctx.session.client_capabilities
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    elicitation = capabilities.elicitation if capabilities is not None else None
    supported = elicitation is not None and elicitation.url is not None
    return modern and supported and bool(conf.site_url())


def url_elicitation(
    answer: Answer, result: CallResult, shown_holds: Collection[str]
) -> InputRequiredResult | None:
    """Ask for the pages of open holds that were not shown yet; None if there are none."""
    new_holds = [each for each in answer.approvals if each.hold_id not in shown_holds]
    if answer.status != "approval_required" or not new_holds:
        return None
    state = {
        "workflow": result.workflow_id,
        "since": result.since,
        "command": result.command,
        "starts": result.starts,
        "asked": [*shown_holds, *(each.hold_id for each in new_holds)],
    }
    return InputRequiredResult(
        input_requests={
            each.hold_id: ElicitRequest(
                params=ElicitRequestURLParams(
                    message=f"“{answer.title}” needs a decision: {each.why}", url=each.review_url
                )
            )
            for each in new_holds
        },
        request_state=json.dumps(state),
    )


def repeated_call(params: CallToolRequestParams) -> RepeatedCall | None:
    """Decode the state of a repeated call; None for a first call."""
    if params.request_state is None:
        return None
    state = json.loads(params.request_state)
    responses = (params.input_responses or {}).values()
    accepted = any(isinstance(each, ElicitResult) and each.action == "accept" for each in responses)
    result = CallResult(
        state["workflow"],
        since=state["since"],
        command=state["command"],
        starts=state.get("starts", False),
    )
    return RepeatedCall(result, tuple(state["asked"]), accepted=accepted)
