"""What an agent gets: the server's result, or a tool error that says what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ErrorData, TextContent

from workflows.models import GateCall

from .calls import Answer, Held, Stage

#: The tool of every gate that continues a held call.
AWAIT_TOOL: Final = "holdpoint_await"
#: Keys in `_meta`: a call that waits for people, and a call that was not answered by the server.
PENDING: Final = "holdpoint/pending"
REFUSED: Final = "holdpoint/refused"

_REASONS: Final[Mapping[str, str]] = {
    "rejected": "A reviewer rejected this call.",
    "expired": "Nobody approved this call in time.",
    "cancelled": "This call was cancelled.",
    "failed": "The approval of this call failed.",
    "completed": "This call was reported as executed by somebody else.",
}


def pending_result(held: Held) -> CallToolResult:
    """Return what a call gets whose decision or answer did not arrive in time."""
    again = (
        f'Call {AWAIT_TOOL} with {{"id": "{held.uid}"}} to wait on, or repeat the same call; both '
        "continue this one."
    )
    if held.stage is Stage.SENT:
        text = f"The call was approved and sent; its answer has not arrived yet. {again}"
    else:
        text = (
            f"Nothing was executed yet: a person has to decide at {held.review_url}. {again} "
            "Show the address to the user if you can."
        )
    return _error(
        text,
        PENDING,
        {
            "id": held.uid,
            "approval_id": held.approval_id,
            "review_url": held.review_url,
            "expires_at": held.expires_at,
        },
    )


def final_result(held: Held) -> CallToolResult:
    """Return the result of a call that is over, or that needs other arguments.

    Raises MCPError if the server answered with an error of the protocol.
    """
    if held.stage is Stage.ANSWERED:
        return _answered(held)
    if held.stage is Stage.CHANGES_REQUESTED:
        text = (
            f"Nothing was executed. A reviewer asked for changes: {held.comment}\n"
            f'Call {AWAIT_TOOL} with {{"id": "{held.uid}", "arguments": {{…}}}} to submit the '
            "changed arguments of this call."
        )
    else:
        reason = _REASONS.get(held.status, "This call was not approved.")
        text = f"Nothing was executed. {reason}" + (f" {held.comment}" if held.comment else "")
    data = {"id": held.uid, "approval_id": held.approval_id, "status": held.status}
    return _error(text, REFUSED, {**data, "comment": held.comment})


def _answered(held: Held) -> CallToolResult:
    if held.answer is not None:
        return sent_result(
            Answer(
                GateCall.Outcome.ERROR if held.is_rpc_error else GateCall.Outcome.ANSWERED,
                held.answer,
                held.error,
            )
        )
    text = held.error or "The call was executed; its answer was too large to be stored."
    return _error(
        text, REFUSED, {"id": held.uid, "status": "unknown" if held.is_unknown else "sent"}
    )


def sent_result(answer: Answer) -> CallToolResult:
    """Return the server's answer unchanged; raises its error of the protocol."""
    if answer.outcome == GateCall.Outcome.ERROR and answer.body is not None:
        error = ErrorData.model_validate(answer.body)
        raise MCPError(code=error.code, message=error.message, data=error.data)
    if answer.body is not None:
        return CallToolResult.model_validate(answer.body)
    status = "not_sent" if answer.outcome == GateCall.Outcome.NOT_SENT else "unknown"
    text = answer.error
    if status == "unknown":
        text += " Whether the call took effect is unknown; it is not sent again."
    return _error(text, REFUSED, {"status": status})


def denied_result(name: str) -> CallToolResult:
    """Return what a call of a denied tool gets."""
    return _error(f"This gate does not allow calls of {name}.", REFUSED, {"status": "denied"})


def _error(text: str, key: str, data: Mapping[str, Any]) -> CallToolResult:
    # An error also while it waits: a result without one has to match the tool's output schema.
    return CallToolResult(content=[TextContent(text=text)], is_error=True, _meta={key: dict(data)})
