"""Set policies, place and lift legal holds, and erase the data of old runs.

Each action is an entry of the append-only retention log, in the same transaction.  The database
function `holdpoint_erase` decides which runs are erased and deletes them: the
product's role cannot delete rows of the journal in another way.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from django.core.cache import cache
from django.db import connection, transaction
from django.db.models.functions import Now
from django.http import Http404
from django.utils import timezone

from reviews import conf
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.rights import NotAllowed
from reviews.models import ErasableRun, LegalHold, RetentionEntry, RetentionPolicy
from workflows.common.crashpoints import crashpoint
from workflows.common.redaction import mask_secrets
from workflows.common.schemas import FieldError
from workflows.engine.values.reasons import Reason
from workflows.executions import access
from workflows.models import Execution, Gate, SecurityEvent, Workflow
from workflows.security_events.services import record_security_event
from workflows.tools import run_folders

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Runs that are erased in one transaction.
BATCH = 100

logger = logging.getLogger(__name__)

#: Time that one round of the sweeper spends here; its other parts wait meanwhile.
ROUND_SECONDS = 2.0
#: After a round that found nothing more to erase, no sweeper looks again for this time.
PAUSE_SECONDS = 600
_PAUSED = "retention.paused"


_EVENTS = {
    RetentionEntry.Kind.POLICY_SET: SecurityEvent.Kind.RETENTION_SET,
    RetentionEntry.Kind.POLICY_DELETED: SecurityEvent.Kind.RETENTION_DELETED,
    RetentionEntry.Kind.HOLD_PLACED: SecurityEvent.Kind.LEGAL_HOLD_PLACED,
    RetentionEntry.Kind.HOLD_LIFTED: SecurityEvent.Kind.LEGAL_HOLD_LIFTED,
    RetentionEntry.Kind.ERASED: SecurityEvent.Kind.RUNS_ERASED,
}
_EVENT_DETAILS = ("legal_hold", "enabled", "keep_days", "erase_records", "records_erased")


class AlreadyErased(Exception):
    """The data of the run was erased before the legal hold was placed."""


# --- policies -------------------------------------------------------------------------------------


def enabling_problem(policy: RetentionPolicy) -> str:
    """Return why a policy cannot be enabled yet; "" if it can.

    People enable only what they could preview: a policy that is stored with the same values.
    """
    if not policy.enabled or policy.keep_days is None:
        return ""
    stored = RetentionPolicy.objects.filter(
        pk=policy.pk,
        keep_days=policy.keep_days,
        workflow=policy.workflow,
        erase_records=policy.erase_records,
    )
    if stored.exists():
        return ""
    return "Save the policy without enabling it first, and look at its preview."


def save_policy(*, actor: User, policy: RetentionPolicy) -> RetentionPolicy:
    """Store a policy, and log it.

    Raises NotAllowed unless the actor is an admin, Http404 for a policy that was deleted meanwhile,
    and ReviewInvalid for a policy that nobody could preview.
    """
    _check_admin(actor)
    with transaction.atomic():
        if policy.pk is not None:
            rows = RetentionPolicy.objects.select_for_update().order_by()
            if rows.filter(pk=policy.pk).first() is None:
                raise Http404
        if problem := enabling_problem(policy):
            raise ReviewInvalid([FieldError("enabled", problem)])
        policy.save()
        _log(
            RetentionEntry.Kind.POLICY_SET,
            actor,
            policy,
            {
                "enabled": policy.enabled,
                "keep_days": policy.keep_days,
                "erase_records": policy.erase_records,
            },
        )
    cache.delete(_PAUSED)
    return policy


def delete_policy(*, actor: User, policy: RetentionPolicy) -> None:
    """Delete a policy, and log it.  Raises NotAllowed unless the actor is an admin."""
    _check_admin(actor)
    with transaction.atomic():
        _log(RetentionEntry.Kind.POLICY_DELETED, actor, policy, {})
        policy.delete()


# --- legal holds ----------------------------------------------------------------------------------


def place_legal_hold(
    *,
    actor: User,
    reason: str,
    execution: Execution | None = None,
    workflow: Workflow | None = None,
    gate: Gate | None = None,
) -> LegalHold:
    """Keep data until the hold is lifted: of a run, of a workflow's runs, or of a gate's calls.

    Raises NotAllowed unless the actor is an admin, AlreadyErased if nothing is left of the run,
    and Http404 if it does not exist.
    """
    _check_admin(actor)
    with transaction.atomic():
        if execution is not None:
            # Erasing locks the same rows, so a run is either erased before or kept.
            rows = Execution.objects.select_for_update(no_key=True)
            locked = rows.filter(pk=execution.pk).only("erased_at").first()
            if locked is None:
                raise Http404
            if locked.erased_at is not None:
                raise AlreadyErased
        if workflow is not None:
            Workflow.objects.select_for_update(no_key=True).get(pk=workflow.pk)
        if gate is not None:
            # Whoever deletes calls locks the gate, and whoever erases held calls locks their runs.
            Gate.objects.select_for_update(no_key=True).get(pk=gate.pk)
            runs = Execution.objects.filter(approval__gate_call__gate=gate, erased_at=None)
            list(runs.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
        hold = LegalHold.objects.create(
            execution=execution,
            workflow=workflow,
            gate=gate,
            reason=mask_secrets(reason),
            placed_by=actor,
        )
        _log_hold(RetentionEntry.Kind.HOLD_PLACED, actor, hold)
    return hold


def lift_legal_hold(*, actor: User, hold: LegalHold, reason: str = "") -> bool:
    """Lift a legal hold; False if it was lifted before.  The log keeps the reason.

    Raises NotAllowed unless the actor is an admin.
    """
    _check_admin(actor)
    with transaction.atomic():
        rows = LegalHold.objects.filter(pk=hold.pk, lifted_at=None)
        if not rows.update(lifted_at=Now(), lifted_by=actor):
            return False
        _log_hold(RetentionEntry.Kind.HOLD_LIFTED, actor, hold, lift_reason=mask_secrets(reason))
    cache.delete(_PAUSED)
    return True


def _check_admin(actor: User) -> None:
    # A policy or a hold may reach runs of any workflow.
    if access.ADMIN not in access.roles_of(actor) or access.allowed_workflow_ids(actor) is not None:
        raise NotAllowed(Reason("not_allowed"))


def _log_hold(
    kind: RetentionEntry.Kind, actor: User, hold: LegalHold, *, lift_reason: str = ""
) -> None:
    runs = [hold.execution_id] if hold.execution_id is not None else []
    detail: dict[str, object] = {"legal_hold": hold.pk, "reason": hold.reason}
    if lift_reason:
        detail["lift_reason"] = lift_reason
    _log(kind, actor, hold, detail, runs)


def _log(
    kind: RetentionEntry.Kind,
    actor: User,
    subject: RetentionPolicy | LegalHold,
    detail: dict[str, object],
    executions: list[int] | None = None,
) -> None:
    entry = RetentionEntry.objects.create(
        kind=kind,
        actor=actor.get_username(),
        subject=str(subject),
        executions=executions or [],
        detail=detail,
    )
    _record(entry, actor)


def _record(entry: RetentionEntry, actor: User | str) -> None:
    """Record an entry of the log as a security event, without its reasons."""
    record_security_event(
        kind=_EVENTS[RetentionEntry.Kind(entry.kind)],
        actor=actor,
        subject=f"retention_entry:{entry.pk}",
        details={
            "about": entry.subject,
            "runs": len(entry.executions),
            **{name: entry.detail[name] for name in _EVENT_DETAILS if name in entry.detail},
        },
    )


# --- erasing --------------------------------------------------------------------------------------


def erase_due() -> int:
    """Erase runs that are due, in batches, and return how many; the sweeper calls this.

    A round ends after `ROUND_SECONDS`, and the next one goes on: a batch is one transaction, and
    what is due is read anew for each. The files of erased runs are deleted at the end of a round,
    also those of an earlier round that did not get so far.
    """
    if not _is_off_peak() or cache.get(_PAUSED):
        return 0
    try:
        return _erase_for_a_round()
    finally:
        run_folders.delete_erased()


def _erase_for_a_round() -> int:
    done, end = 0, time.monotonic() + ROUND_SECONDS
    for policy in RetentionPolicy.objects.filter(enabled=True, keep_days__isnull=False):
        while erased := erase_batch(policy):
            done += erased
            if time.monotonic() > end:
                return done
    cache.set(_PAUSED, value=True, timeout=PAUSE_SECONDS)
    return done


def erase_batch(policy: RetentionPolicy) -> int:
    """Erase the oldest runs that are due under an enabled policy, and return how many."""
    due = ErasableRun.objects.filter(policy=policy).order_by("finished_at")
    ids = list(due.values_list("execution_id", flat=True)[:BATCH])
    if not ids:
        return 0
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT holdpoint_erase(%s, %s::bigint[])", [policy.pk, ids])
        erased = int(cursor.fetchone()[0])
        if erased:
            # The function has written the entry in this transaction.
            entries = RetentionEntry.objects.filter(kind=RetentionEntry.Kind.ERASED)
            _record(entries.filter(executions__overlap=ids).latest("id"), "system")
    if erased:
        crashpoint("retention.erased")
        logger.info("erased %s runs under the policy “%s”", erased, policy)
    return erased


def _is_off_peak() -> bool:
    hours = conf.retention_hours()
    if hours is None:
        return True
    begin, end = hours
    now = timezone.now().hour
    return begin <= now < end if begin < end else now >= begin or now < end
