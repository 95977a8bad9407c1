"""The calls of a gate in the database: asked for, held, sent, answered.

Every function is one transaction, and the server calls it in a thread.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now
from django.http import Http404
from django.utils import timezone

from workflows import conf
from workflows.approvals import services as approvals
from workflows.approvals.selectors import approval_body, with_status
from workflows.common.crashpoints import crashpoint
from workflows.common.redaction import mask_secrets
from workflows.common.schemas import schema_problem
from workflows.common.stored_text import storable
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol.decide import Refused
from workflows.engine.values.bounded_json import BoundedJSONError, check_value, digest
from workflows.models import Approval, Gate, GateCall, GatePolicy

from .callers import GateCaller
from .policies import GateToolInfo, tool_infos
from .sweeper_hooks import GRACE_SECONDS, UNKNOWN
from .tools import Target, target_of

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from workflows.mcp_server.authentication import CallContext

#: Largest answer of a held call, which is kept for its agent.
ANSWER_BYTES = 4_194_304

logger = logging.getLogger(__name__)

_CANCELLED: Final = "Cancelled by the agent."
_CANCELLED_APPROVED: Final = "Cancelled by the agent. The call was approved, and never sent."
#: Seconds between two attempts for a task whose server cannot be reached.
RETRY_SECONDS: Final = 30
#: Characters of an error that the call and its approval keep.
_MAX_ERROR: Final = 10_000
_NOT_REPORTED: Final = "The answer could not be reported: the approval was {} by then."


class Stage(StrEnum):
    """Where a held call is."""

    PENDING = "pending"
    APPROVED = "approved"
    SENT = "sent"
    ANSWERED = "answered"
    CHANGES_REQUESTED = "changes_requested"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Held:
    """A held call as its agent sees it.

    `answer` is the server's result, or with `is_rpc_error` its error; None unless the stage is
    ANSWERED and the answer was kept.  `is_unknown`: nobody knows what the server did.
    `may_retry` is false for a while after the server could not be reached.
    """

    uid: str
    stage: Stage
    status: str
    approval_id: str
    execution_id: str
    review_url: str
    expires_at: str | None
    comment: str
    created_at: str
    updated_at: str
    tool: str
    answer: dict[str, Any] | None = None
    is_rpc_error: bool = False
    is_unknown: bool = False
    error: str = ""
    may_retry: bool = True


@dataclass(frozen=True, slots=True)
class Sending:
    """A call that this process may send, once."""

    call_id: int
    target: Target
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call that was sent."""

    outcome: GateCall.Outcome
    body: dict[str, Any] | None = None
    error: str = ""


class Denied(Exception):
    """The policy of the tool denies its calls."""


class NoSuchTool(Exception):
    """No server of the gate has a tool of this name."""


# --- asking ---------------------------------------------------------------------------------------


def begin(
    caller: GateCaller, exported: str, arguments: dict[str, Any], client: str
) -> Sending | UUID:
    """Record a call; return it to be sent if it is allowed, or the id of the held call.

    The same held call of the same token is continued until its answer was delivered.

    Raises:
        NoSuchTool, Denied: see there.
        InvalidRequest: the arguments do not match the tool's schema.
    """
    context, gate = caller.context()
    target = target_of(gate, exported, context.token.pk)
    if target is None:
        raise NoSuchTool(exported)
    info = tool_infos(gate, [target.name])[target.name]
    fields: dict[str, Any] = {
        "gate": gate,
        "user": context.user,
        "token": context.token,
        "client": mask_secrets(client)[:200],
        "tool": target.name[:200],
        "policy": info.policy.value,
        "arguments_digest": digest(arguments),
        "arguments": _kept(arguments, conf.gate_keep_bytes()),
    }
    if info.policy == GatePolicy.DENY:
        GateCall.objects.create(**fields, outcome=GateCall.Outcome.DENIED)
        raise Denied(target.name)
    if info.policy == GatePolicy.ALLOW:
        call = GateCall.objects.create(
            **fields, sent_at=Now(), sent_digest=fields["arguments_digest"]
        )
        return Sending(call.pk, target, arguments)
    return _hold(caller, context, fields, info, arguments)


def _hold(
    caller: GateCaller,
    context: CallContext,
    fields: Mapping[str, Any],
    info: GateToolInfo,
    arguments: dict[str, Any],
) -> UUID:
    key = {name: fields[name] for name in ("gate", "token", "tool", "arguments_digest")}
    with transaction.atomic():
        call, is_new = GateCall.objects.select_for_update(of=("self",)).get_or_create(
            **key, policy=GatePolicy.HOLD, closed_at=None, defaults=fields
        )
        if is_new:
            caller.caller.count("start")
            approval = _ask(context.user, fields["gate"], call, info, arguments)
            GateCall.objects.filter(pk=call.pk).update(approval=approval)
    return call.uid


def _ask(
    user: User, gate: Gate, call: GateCall, info: GateToolInfo, arguments: dict[str, Any]
) -> Approval:
    schema = dict(info.input_schema or {})
    return approvals.ask(
        actor=user,
        fields={
            "action": {
                "name": info.action,
                "title": (info.title or info.name)[:200],
                "description": info.description[:4000],
                "arguments": arguments,
                "schema": {} if schema_problem(schema) else schema,
            },
            "phase": TriggerPhase.BEFORE_EXECUTION.value,
            "risk": "medium" if info.destructive is False else "high",
            "editable": True,
            "context": f"Gate `{gate.name}`. Holdpoint calls the tool after the approval.",
            "requested_by": {"agent": call.client},
        },
    )


# --- reading --------------------------------------------------------------------------------------


def held_call(caller: GateCaller, uid: str | UUID) -> Held:
    """Return a held call of this token and gate; raise Http404 for any other id."""
    row = _own_call(caller, uid)
    _settle_unknown(row)
    return _held(row)


def _own_call(caller: GateCaller, uid: str | UUID, *, lock: bool = False) -> GateCall:
    context, gate = caller.context()
    try:
        known = uid if isinstance(uid, UUID) else UUID(uid)
    except ValueError:
        raise Http404 from None
    rows = GateCall.objects.select_for_update() if lock else GateCall.objects.all()
    row = rows.filter(uid=known, gate=gate, token=context.token, policy=GatePolicy.HOLD).first()
    if row is None or row.approval_id is None:
        raise Http404
    return row


def _approval_of(row: GateCall) -> Approval:
    """Return the approval of a held call with its status."""
    return with_status(Approval.objects.filter(gate_call=row)).get()


def _held(row: GateCall) -> Held:
    approval = _approval_of(row)
    body = approval_body(approval)
    stage = _stage(row, body["status"])
    is_cancelled = _is_cancelled(row)
    updated = row.answered_at or body["decided_at"] or row.created_at
    return Held(
        uid=str(row.uid),
        stage=stage,
        status="cancelled" if is_cancelled else body["status"],
        approval_id=str(approval.pk),
        execution_id=body["execution_id"],
        review_url=body["review_url"],
        expires_at=body["expires_at"].isoformat() if body["expires_at"] else None,
        comment=row.error if is_cancelled else body["comment"],
        created_at=row.created_at.isoformat(),
        updated_at=updated.isoformat(),
        tool=row.tool,
        answer=answer_of(row, approval) if stage is Stage.ANSWERED else None,
        is_rpc_error=row.outcome == GateCall.Outcome.ERROR,
        is_unknown=row.outcome == GateCall.Outcome.UNKNOWN,
        error=row.error,
        may_retry=_may_retry(row),
    )


def answer_of(row: GateCall, approval: Approval | None) -> dict[str, Any] | None:
    """Return the server's answer to a call, or None if only its digest is kept."""
    if row.answer:
        kept: dict[str, Any] = json.loads(row.answer)
        return kept
    # The digest tells the server's answer from a result that another program reported.
    reported = approval.result_output if approval is not None else None
    is_answer = isinstance(reported, dict) and row.answer_digest == _digest_of(reported)
    return reported if is_answer else None


def _is_cancelled(row: GateCall) -> bool:
    """Whether the agent cancelled the call before it was sent."""
    return row.answered_at is not None and row.outcome == GateCall.Outcome.NOT_SENT


def _may_retry(row: GateCall) -> bool:
    pause = timedelta(seconds=RETRY_SECONDS)
    return row.not_sent_at is None or timezone.now() - row.not_sent_at >= pause


def _stage(row: GateCall, status: str) -> Stage:
    if _is_cancelled(row):
        return Stage.REFUSED
    if row.answered_at is not None:
        return Stage.ANSWERED
    if row.sent_at is not None:
        return Stage.SENT
    if status in ("pending", "approved", "changes_requested"):
        return Stage(status)
    return Stage.REFUSED


def with_answer(held: Held, answer: Answer) -> Held:
    """Return the held call with an answer that was too large to be kept."""
    is_rpc_error = answer.outcome == GateCall.Outcome.ERROR
    return replace(held, answer=answer.body, is_rpc_error=is_rpc_error)


# --- sending --------------------------------------------------------------------------------------


def claim(caller: GateCaller, uid: str | UUID) -> Sending | None:
    """Return an approved call to be sent, once; None if it was sent, or is not approved (any more).

    The policy counts as it is now: a tool that was denied meanwhile is not called.
    """
    with transaction.atomic():
        row = _own_call(caller, uid, lock=True)
        approval = _approval_of(row)
        is_over = row.sent_at is not None or row.answered_at is not None
        if is_over or approval.status != "approved":  # type: ignore[attr-defined]
            return None
        target = _target(row)
        if target is None:
            raise Denied(row.tool)
        arguments = dict(approval_body(approval)["arguments"])
        GateCall.objects.filter(pk=row.pk).update(sent_at=Now(), sent_digest=digest(arguments))
    crashpoint("gate.sent")
    return Sending(row.pk, target, arguments)


def _target(row: GateCall) -> Target | None:
    """Return where a held call goes; None if the gate does not offer the tool any more."""
    server, _, tool = row.tool.partition(".")
    target = target_of(row.gate, f"{server}__{tool}", row.token_id)
    if target is None or target.name != row.tool:
        return None
    denied = tool_infos(row.gate, [row.tool])[row.tool].policy == GatePolicy.DENY
    return None if denied else target


def record(call_id: int, answer: Answer) -> None:
    """Store the answer of a call that was sent, and report it to its approval.

    The error is text of a server: what cannot be stored would leave the call without an outcome.
    """
    answer = replace(answer, error=storable(answer.error, _MAX_ERROR))
    crashpoint("gate.answered")
    with transaction.atomic():
        row = GateCall.objects.select_for_update(of=("self",)).get(pk=call_id)
        if row.answered_at is not None:
            return
        if answer.outcome == GateCall.Outcome.NOT_SENT and row.approval_id is not None:
            # Nothing happened, so the approval still holds: asking again sends the call.
            GateCall.objects.filter(pk=row.pk).update(
                sent_at=None, not_sent_at=Now(), error=answer.error
            )
            return
        GateCall.objects.filter(pk=row.pk).update(
            answered_at=Now(),
            outcome=answer.outcome,
            answer_digest=_digest_of(answer.body),
            answer=_kept(answer.body, conf.gate_keep_bytes()) if row.approval_id is None else "",
            error=answer.error,
        )
        if row.approval_id is not None:
            _report(row, answer)


def _kept(value: dict[str, Any] | None, limit: int) -> str:
    """Return the JSON text of a value; "" if it has more bytes than `limit`, or if 0 is kept."""
    text = "" if value is None or not limit else json.dumps(value, separators=(",", ":"))
    return text if len(text) <= limit else ""


def _digest_of(body: dict[str, Any] | None) -> str:
    try:
        return digest(body) if body is not None else ""
    except BoundedJSONError:
        return ""


def _report(row: GateCall, answer: Answer) -> None:
    approval = _approval_of(row)
    status: str = approval.status  # type: ignore[attr-defined]
    if status != "approved":
        logger.error("gate call %s: approval %s was %s by then", row.uid, approval.pk, status)
        error = " ".join(filter(None, [answer.error, _NOT_REPORTED.format(status)]))
        GateCall.objects.filter(pk=row.pk).update(error=error)
        return
    body, error = answer.body, answer.error
    try:
        check_value(body)
    except BoundedJSONError as problem:
        kept = _keep_large(row, answer, problem)
        body, error = None, error or kept
    approvals.report(
        approval=approval,
        actor=row.user,
        fields={
            "ok": answer.outcome == GateCall.Outcome.ANSWERED,
            "output": body,
            "error": error[:_MAX_ERROR],
            "arguments_digest": row.sent_digest,
        },
        source="mcp",
        by_gate=True,
    )


def _keep_large(row: GateCall, answer: Answer, problem: BoundedJSONError) -> str:
    """Keep an answer that no approval can hold for its agent; return what the approval says."""
    limit = ANSWER_BYTES
    text = _kept(answer.body, limit)
    if text:
        GateCall.objects.filter(pk=row.pk).update(answer=text)
        return f"The record has only the digest of the answer, which the gate keeps: {problem}"
    error = (
        f"The call was executed; its answer is not kept, because it has more than {limit:,} bytes"
        " (HOLDPOINT_GATE_ANSWER_BYTES). Ask the server for less at a time."
    )
    GateCall.objects.filter(pk=row.pk).update(error=error)
    return error


def _settle_unknown(row: GateCall) -> None:
    """Record that the outcome is unknown if no process can be waiting for the answer any more."""
    limit = timedelta(seconds=conf.gate_call_seconds() + GRACE_SECONDS)
    if row.sent_at is None or row.answered_at is not None:
        return
    if timezone.now() - row.sent_at > limit:
        record(row.pk, Answer(GateCall.Outcome.UNKNOWN, error=UNKNOWN))
        row.refresh_from_db()


# --- after the answer -----------------------------------------------------------------------------


def close(caller: GateCaller, uid: str | UUID) -> None:
    """Record that the agent got the answer: the same call is a new one from now on."""
    row = _own_call(caller, uid)
    GateCall.objects.filter(pk=row.pk, closed_at=None).update(closed_at=Now())


def cancel(caller: GateCaller, uid: str | UUID) -> None:
    """Cancel a call that was not sent, whatever people decide; it is never sent afterwards."""
    with transaction.atomic():
        row = _own_call(caller, uid, lock=True)
        approval = _approval_of(row)
        status: str = approval.status  # type: ignore[attr-defined]
        if row.sent_at is not None or row.answered_at is not None:
            return
        if status not in ("pending", "changes_requested", "approved"):
            return
        error = _CANCELLED_APPROVED if status == "approved" else _CANCELLED
        cancelled = Answer(GateCall.Outcome.NOT_SENT, error=error)
        GateCall.objects.filter(pk=row.pk).update(
            answered_at=Now(), outcome=cancelled.outcome, error=error
        )
        if status == "approved":
            _report(row, cancelled)
            return
    context, _ = caller.context()
    with suppress(Refused):  # decided in this moment; the call is not sent all the same
        approvals.cancel(
            approval=approval, actor=context.user, reason=_CANCELLED, source="mcp", by_gate=True
        )


def resubmit(caller: GateCaller, uid: str | UUID, arguments: dict[str, Any]) -> None:
    """Submit other arguments after changes were requested, which opens the next round."""
    row = _own_call(caller, uid)
    context, _ = caller.context()
    approvals.resubmit(
        approval=_approval_of(row),
        actor=context.user,
        fields={"arguments": arguments},
        source="mcp",
        by_gate=True,
    )
