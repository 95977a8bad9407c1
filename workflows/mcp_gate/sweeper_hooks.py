"""Sweeper hooks: calls that were lost, and the retention of calls."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db import transaction
from django.db.models.functions import Now

from workflows import conf
from workflows.executions.legal_holds import without_legal_hold_of_gate
from workflows.models import Gate, GateCall

#: Days after which calls that nobody had to approve are deleted.
KEEP_DAYS = 90

#: Seconds after the time limit of a call until its outcome counts as unknown.
GRACE_SECONDS: Final = 30
UNKNOWN: Final = (
    "The call was sent and no answer arrived. Whether it took effect is unknown; it is not sent "
    "again."
)
_DELETE_BATCH: Final = 5000


def settle_lost() -> int:
    """Record the unknown outcome of calls whose process ended; return how many."""
    limit = timedelta(seconds=conf.gate_call_seconds() + GRACE_SECONDS)
    lost = GateCall.objects.filter(sent_at__lt=Now() - limit, answered_at=None)
    rows = list(lost.order_by("sent_at")[:100])
    if rows:
        _record_unknown(rows)
    return len(rows)


def _record_unknown(rows: list[GateCall]) -> None:
    from .calls import Answer, record  # `calls` imports this module

    for row in rows:
        record(row.pk, Answer(GateCall.Outcome.UNKNOWN, error=UNKNOWN))


def delete_old() -> int:
    """Delete calls without an approval after `gate_keep_days`; return how many.

    A legal hold of their gate keeps them.
    """
    end = Now() - timedelta(days=KEEP_DAYS)
    old = without_legal_hold_of_gate(GateCall.objects.filter(approval=None, created_at__lt=end))
    if not old.exists():
        return 0
    with transaction.atomic():
        # Whoever places a legal hold locks the gate too, so the calls are deleted before or kept.
        list(Gate.objects.select_for_update(no_key=True).order_by("pk").values_list("pk"))
        ids = list(old.values_list("pk", flat=True)[:_DELETE_BATCH])
        GateCall.objects.filter(pk__in=ids).delete()
    return len(ids)
