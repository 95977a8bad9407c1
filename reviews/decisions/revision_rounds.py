"""Asking for changes, and what came of it: the reviews of one task's output, one after another."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_

from reviews.components.diffs import diff
from reviews.decisions.masking import Masked, masked
from reviews.models import Decision, HumanReviewRecord
from workflows.engine.policy import TriggerPhase
from workflows.models import Hold

PRESETS = (N_("Too long"), N_("Something is missing"), N_("Wrong tone"))


def rounds_context(hold: Hold, view: Masked) -> dict[str, Any]:
    """`changes_*` of the page: whether changes can be asked for, and the earlier tries.

    `view` is the payload as people see it.  `changes_off` says why they cannot be, "" when they
    can or when nobody would ask here.
    """
    is_output = hold.phase == TriggerPhase.AFTER_EXECUTION
    return {
        "may_return": is_output and hold.changes_left > 0,
        "changes_off": _why_off(hold) if is_output and hold.changes_left == 0 else "",
        "changes_presets": tuple(_(each) for each in PRESETS),
        "changes_effect": _effect(hold),
        "earlier_rounds": tuple(_rounds(hold, view)),
    }


def _why_off(hold: Hold) -> str:
    asked = hold.round - 1
    if not asked:
        return _("This task does not run again: its plan takes no requests for changes.")
    if asked == 1:
        return _("Changes were requested once, and no more can be. Approve, edit or reject it.")
    return _(
        "Changes were requested %(count)s times, and no more can be. Approve, edit or reject it."
    ) % {"count": asked}


def _effect(hold: Hold) -> str:
    text = _("Runs %(task)s again with your words, and asks for review of what it gives then.")
    told = text % {"task": hold.task_id}
    if hold.changes_left == 1:
        return told + " " + _("This is the last time.")
    return told


def _rounds(hold: Hold, view: Masked) -> list[dict[str, Any]]:
    """Earlier reviews, the latest first: what was asked, and how the output differs from now."""
    found, later = [], hold
    while later.previous is not None:
        earlier = later.previous
        record = _asked(earlier)
        before = masked(earlier.payload, view.rules, after=view)
        found.append(
            {
                "round": earlier.round,
                "by": record.actor if record else earlier.decided_by,
                "feedback": record.comment if record else "",
                "at": earlier.decided_at,
                "url": reverse("reviews:decision", args=(earlier.execution_id, earlier.id)),
                "changes": diff(before.value, view.value),
            }
        )
        later, view = earlier, before
    return found


def _asked(hold: Hold) -> HumanReviewRecord | None:
    rows = HumanReviewRecord.objects.standing().filter(hold=hold)
    return rows.filter(decision=Decision.REQUEST_CHANGES).order_by("-id").first()
