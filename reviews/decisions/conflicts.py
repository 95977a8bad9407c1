"""Conflicts: the present state for a decision that came too late, and the comparison of edits."""

from __future__ import annotations

import json
from typing import Any

from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_

from reviews.components.json_diffs import MISSING
from reviews.decisions.masking import Masked, edited_as_shown, masked
from reviews.decisions.three_way_merge import MergeRow, merge
from reviews.models import HumanReviewRecord, ReviewClaim
from workflows.engine.values.bounded_json import digest
from workflows.engine.values.reasons import Reason
from workflows.models import Hold


class Conflict(Exception):
    """The decision came too late, or another decision was first.

    `state` is the present state: id, status and version of the execution, its open holds[], and
    hold_id, hold_status, undo_until, decided[] (decisions) and claimed_by of the hold.  `reason`
    explains the conflict, `message` in English.
    """

    def __init__(self, code: str, reason: Reason | str, state: dict[str, Any]) -> None:
        self.code = code
        self.reason = reason
        self.message = reason.text if isinstance(reason, Reason) else reason
        self.state = state
        super().__init__(self.message)


def conflict(hold_id: str, code: str, reason: Reason | str) -> Conflict:
    """Build the conflict about a hold from its present state."""
    return Conflict(code, reason, present_state(hold_id))


def shown_digest(hold: Hold) -> str:
    """Return the digest of what a review shows, which a decision can be bound to.

    It has a key: it goes to browsers and chats, and a payload may have a short secret.
    """
    return salted_hmac("holdpoint.shown", digest(hold.payload), algorithm="sha256").hexdigest()


def not_as_shown(hold: Hold) -> Conflict:
    """Build the conflict about a hold that is closed or shows something else than before."""
    is_open = hold.status == Hold.Status.OPEN
    code, reason = ("stale", "review_changed") if is_open else ("decided", "hold_is_closed")
    return conflict(hold.pk, code, Reason(reason))


def present_state(hold_id: str) -> dict[str, Any]:
    """Return the state of a hold and its execution as JSON; {} if the hold does not exist."""
    hold = Hold.objects.select_related("execution").filter(pk=hold_id).first()
    if hold is None:
        return {}
    execution = hold.execution
    others = execution.holds.filter(status=Hold.Status.OPEN).order_by("opened_seq")
    records = HumanReviewRecord.objects.standing().filter(hold=hold).with_keys().order_by("id")
    claim = ReviewClaim.objects.select_related("user").filter(hold=hold).first()
    return {
        "id": str(execution.pk),
        "status": execution.status,
        "version": execution.version,
        "hold_id": hold.id,
        "hold_status": hold.status,
        "undo_until": hold.undo_until.isoformat() if hold.undo_until else None,
        "holds": [
            {"id": other.id, "node_id": other.task_id, "trigger_phase": other.phase}
            for other in others
        ],
        "decided": [decided(record) for record in records],
        "claimed_by": claim.user.get_username() if claim else None,
    }


def decided(record: HumanReviewRecord) -> dict[str, Any]:
    """Return a record as JSON, without the payload."""
    return {
        "decision": record.decision,
        "by": record.actor,
        "at": record.reviewed_at.isoformat(),
        "edited": record.is_edited,
        "comment": record.comment,
    }


_OUTCOME_LABELS = {
    "theirs": N_("only the decision changed it"),
    "mine": N_("only you changed it"),
    "both": N_("you both made the same change"),
    "conflict": N_("you changed it differently"),
}


def conflict_context(
    view: Masked, state: str, records: list[HumanReviewRecord], mine: Any
) -> dict[str, Any] | None:
    """rows of path, base, theirs, mine, outcome, words; None when there is nothing to compare.

    `together` is the JSON text with every edit of both, "" where mine has them all; of a place that
    both edited it has mine.  `view` is the payload as it is shown, `mine` the whole of it as the
    person made it; `records` are the hold's.
    """
    if state != "decided" or not records:
        return None
    record = records[-1]
    theirs = record.modified_data if record.is_edited else record.original_data
    decided = masked(theirs, view.rules, after=view)
    both = merge(view.value, decided.value, edited_as_shown(decided, mine))
    outcomes = {row.outcome for row in both.rows}
    if outcomes.isdisjoint(("mine", "conflict")):
        return None
    together = json.dumps(both.merged, indent=2, ensure_ascii=False)
    return {
        "by": record.actor,
        "rows": tuple(_conflict_row(row) for row in both.rows),
        "together": together if "theirs" in outcomes else "",
    }


def _conflict_row(row: MergeRow) -> dict[str, Any]:
    return {
        "path": row.dotted or _("the whole value"),
        "cells": tuple(
            {"is_missing": value is MISSING, "value": "" if value is MISSING else value}
            for value in (row.base, row.theirs, row.mine)
        ),
        "outcome": row.outcome,
        "words": _(_OUTCOME_LABELS[row.outcome]),
    }
