"""Calls of tools whose hooks ask for approval: equal calls share an open approval.

A hook that stops waiting cancels its approval, unless the hook of an equal call still waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.db import IntegrityError, connection, transaction
from django.db.models import Exists, Max, OuterRef, Q
from django.db.models.functions import Now

from workflows.approvals import services as approvals
from workflows.approvals.selectors import is_awaited, with_status
from workflows.common.redaction import mask_secrets
from workflows.engine.protocol.decide import Refused
from workflows.engine.values.bounded_json import digest
from workflows.executions import access
from workflows.executions.idempotency import KeyReused
from workflows.models import Approval
from workflows.models.approvals import ApprovalStatus

from .models import HookCall

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Seconds between the end of a request and the hook's next one.
_PAUSE: Final = 15
#: Seconds after which an approval of a hook ends, if its policy sets no deadline.
DEADLINE_SECONDS: Final = 86_400


class StoppedWaiting(Exception):
    """The hook of the call had stopped waiting before its request arrived."""


def ask(
    *, actor: User, request: Mapping[str, Any], fields: Mapping[str, Any], key: str, wait: float
) -> HookCall:
    """Return the call with its approval: its own, the open one of an equal call, or a new one.

    Args:
        actor: the user whose token or session asks.
        request: what `hook_formats.request_of` made of the event; `fields`: validated fields.
        key: the id of the call; the same id continues the same call.
        wait: the seconds for which the hook waits.

    Raises:
        KeyReused: the call was about something else.
        StoppedWaiting: the hook has stopped waiting.
        InvalidRequest, PermissionDenied: see `workflows.approvals.services.ask`.
    """
    until = Now() + timedelta(seconds=wait + _PAUSE)
    body_digest = digest(dict(request))
    try:
        with transaction.atomic():
            _lock(actor, request)
            call = HookCall.objects.filter(key_digest=_key_digest(actor, key)).first()
            if call is not None:
                if call.approval_id is None:
                    raise StoppedWaiting
                if call.body_digest != body_digest:
                    raise KeyReused
                HookCall.objects.filter(pk=call.pk).update(waits_until=until)
                _note_waiting(call.approval_id)
                return call
            approval = _open_approval(actor, request) or approvals.ask(
                actor=actor, fields=fields, deadline_seconds=DEADLINE_SECONDS
            )
            call = HookCall.objects.create(
                key_digest=_key_digest(actor, key),
                body_digest=body_digest,
                approval=approval,
                waits_until=until,
            )
            _note_waiting(approval.pk)
            return call
    except IntegrityError as error:
        # Another request with the id, about something else or of the hook's end, was first.
        raise KeyReused from error


def stop_waiting(*, actor: User, request: Mapping[str, Any], key: str) -> HookCall:
    """Note that the hook of a call waits no more; cancel an approval that no hook waits for."""
    with transaction.atomic():
        _lock(actor, request)
        call, _ = HookCall.objects.update_or_create(
            key_digest=_key_digest(actor, key), defaults={"waits_until": Now()}
        )
        if call.approval_id is None:
            return call
        approval = _note_waiting(call.approval_id)
        if not is_awaited(approval):
            with suppress(Refused):  # it is decided
                approvals.cancel(
                    approval=approval, actor=actor, reason="The agent stopped waiting."
                )
    return call


def allowed_once(call: HookCall, body: dict[str, Any]) -> dict[str, Any]:
    """Return the approval's body for the call: one approval allows one call, even of equal ones."""
    if body["status"] != ApprovalStatus.APPROVED:
        return body
    try:
        with transaction.atomic():
            HookCall.objects.filter(pk=call.pk).update(is_allowed=True)
    except IntegrityError:
        return {**body, "status": ApprovalStatus.COMPLETED.value}
    return body


def _open_approval(actor: User, request: Mapping[str, Any]) -> Approval | None:
    """Return the pending approval of an equal call: of the token, in the same working folder."""
    action = request["action"]
    rows = Approval.objects.filter(
        Exists(HookCall.objects.filter(approval=OuterRef("pk"))),
        owner=actor.pk,
        token=_token_id(actor),
        action=action["name"],
        arguments_digest=digest(action["arguments"]),
        context=mask_secrets(request["context"]),
    )
    pending = with_status(rows).filter(Q(status=ApprovalStatus.PENDING))
    return pending.order_by("pk").first()


def _note_waiting(approval_id: int) -> Approval:
    """Tell the approval until when hooks wait for it, and return it."""
    waits = HookCall.objects.filter(approval=approval_id).aggregate(until=Max("waits_until"))
    Approval.objects.filter(pk=approval_id).update(awaited_until=waits["until"])
    return Approval.objects.get(pk=approval_id)


def _lock(actor: User, request: Mapping[str, Any]) -> None:
    """Let equal calls ask and stop one after the other, until the transaction ends."""
    call = [actor.pk, _token_id(actor), request["action"], request["context"]]
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [int(digest(call)[:15], 16)])


def _key_digest(actor: User, key: str) -> str:
    return digest([actor.pk, _token_id(actor), key])


def _token_id(actor: User) -> int | None:
    credential = access.credential_of(actor)
    return credential.token_id if credential else None
