"""The tool `request_approval`: ask as `POST /api/v1/approvals/` does, and wait for the answer."""

from __future__ import annotations

from typing import Any, Final

from django.http import Http404

from workflows.approvals.api import AskSerializer, own_body
from workflows.approvals.services import ask

from . import argument_models
from .authentication import Caller
from .commands import respond_once_by_key
from .result_models import RequestedApproval
from .threads import in_thread
from .waiting import Report, wait_until_answered

_MESSAGES: Final = {
    "pending": "Nobody has decided yet. Do not execute the action. Call request_approval again "
    "with the same fields and idempotency_key.",
    "approved": "Approved. Execute exactly these arguments, or use the output if it has run.",
    "rejected": "Rejected. Do not execute the action.",
    "changes_requested": "Changes are requested. Do not execute the action. Ask again with changed "
    "arguments and another idempotency_key.",
    "expired": "Nobody decided in time. Do not execute the action.",
    "cancelled": "The approval was cancelled. Do not execute the action.",
    "completed": "This action was executed before. Do not execute it again.",
    "failed": "The approval has failed. Do not execute the action.",
}


async def request_approval(
    caller: Caller, arguments: argument_models.RequestApproval, seconds: float, report: Report
) -> RequestedApproval:
    """Ask, or find the approval of the same key, and wait at most `seconds` for its answer."""
    approval_id = await in_thread(_ask, caller, arguments)
    body = await in_thread(_body, caller, approval_id)

    async def read() -> dict[str, Any]:
        return await in_thread(_body, caller, approval_id)

    if body["status"] == "pending" and seconds:
        body = await wait_until_answered(caller, body, seconds=seconds, read=read, report=report)
    return _response(body)


def _ask(caller: Caller, arguments: argument_models.RequestApproval) -> int:
    caller.count("start")
    context = caller.context()
    context.require("ask")
    context.require_start()
    body = arguments.model_dump(
        mode="json",
        by_alias=True,
        exclude_unset=True,
        exclude={"idempotency_key", "wait_seconds"},
    )
    body = {name: value for name, value in body.items() if value is not None}
    serializer = AskSerializer(data=body)
    serializer.is_valid(raise_exception=True)

    def perform() -> str:
        approval = ask(
            actor=context.user,
            fields=dict(serializer.validated_data),
            key=arguments.idempotency_key,
            body=body,
        )
        return str(approval.pk)

    return int(
        respond_once_by_key(context, arguments.idempotency_key, "request_approval", body, perform)
    )


def _body(caller: Caller, approval_id: int) -> dict[str, Any]:
    """Return the approval; raise Http404 if the caller may not see it any more."""
    context = caller.context()
    context.require("ask")
    body = own_body(context.user, approval_id)
    if body is None:
        raise Http404
    return body


def _response(body: dict[str, Any]) -> RequestedApproval:
    is_approved = body["status"] == "approved"
    return RequestedApproval(
        message=_MESSAGES[body["status"]],
        arguments=body["arguments"] if is_approved else None,
        arguments_digest=body["arguments_digest"] if is_approved else None,
        output=body["output"] if is_approved else None,
        **{
            name: body[name]
            for name in (
                *("status", "id", "edited", "comment", "decided_by", "execution_id"),
                *("review_url", "expires_at"),
            )
        },
    )
