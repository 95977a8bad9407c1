"""A hold that is over: who decided, what time did, and what happened next."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from reviews.components.diffs import diff
from reviews.decisions.masking import Masked, masked
from reviews.models import HumanReviewRecord
from workflows.models import ExecutionEvent, Hold

from .hold_context import Surroundings

_EXPIRED = {
    "approve": N_("it was approved as it was."),
    "reject": N_("it was rejected."),
    "abort": N_("the run was aborted."),
}


def state_of(hold: Hold, records: list[HumanReviewRecord]) -> str:
    """open, decided, expired (time decided) or closed (its run ended)."""
    if hold.status == Hold.Status.OPEN:
        return "open"
    if records and records[-1].reviewer_id is None:
        return "expired"
    return "closed" if hold.status == Hold.Status.CLOSED else "decided"


def outcome(
    hold: Hold,
    state: str,
    records: list[HumanReviewRecord],
    around: Surroundings,
    view: Masked,
) -> dict[str, Any]:
    """How it ended, and what the run did with it; empty values while the hold is open.

    `view` is the payload as people see it.
    """
    record = records[-1] if records and state in ("decided", "expired") else None
    return {
        "decided": _decided(record, view) if record and state == "decided" else None,
        "expired_words": _expired_words(hold) if state == "expired" else "",
        "closed_words": _closed_words(hold) if state == "closed" else "",
        "record_url": reverse("reviews:record", args=(record.pk,)) if record else "",
        "next": around.what_followed() if state == "decided" and not hold.undo_until else (),
    }


def _expired_words(hold: Hold) -> str:
    known = _EXPIRED.get(hold.on_timeout)
    return _(known) if known else ""


def _this(record: HumanReviewRecord) -> str:
    """`reviewer approved this with 2 changes`."""
    n, told = record.change_count, {"name": record.actor, "n": record.change_count}
    if record.decision == "REQUEST_CHANGES":
        return _("%(name)s requested changes of this") % told
    if record.decision != "APPROVE":
        return _("%(name)s rejected this") % told
    if not record.is_edited:
        return _("%(name)s approved this") % told
    text = ngettext(
        "%(name)s approved this with %(n)s change", "%(name)s approved this with %(n)s changes", n
    )
    return text % told


def _decided(record: HumanReviewRecord, view: Masked) -> dict[str, Any]:
    return {
        "decision": record.decision,
        "by": record.actor,
        "sentence": _this(record),
        "at": record.reviewed_at,
        "comment": record.comment,
        "changes": diff(view.value, masked(record.modified_data, view.rules, after=view).value)
        if record.is_edited
        else (),
    }


def _closed_words(hold: Hold) -> str:
    """Who or what ended the run, as one sentence."""
    ended = ExecutionEvent.objects.filter(
        execution_id=hold.execution_id,
        kind__in=("execution_aborted", "execution_failed", "execution_completed"),
    ).last()
    if ended is None:
        return _("The run has gone on without it.")
    at = timezone.localtime(ended.created_at).strftime("%H:%M")
    if ended.kind == "execution_aborted":
        return _("%(name)s aborted the run at %(time)s.") % {"name": ended.actor, "time": at}
    return _("The run ended at %(time)s.") % {"time": at}
