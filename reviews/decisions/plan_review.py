"""Page context of a plan review, and the parsing of its form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from reviews.components.plan_diff import PlanDiff, diff_context
from reviews.decisions.masking import Masked
from workflows.common.schemas import FieldError
from workflows.engine.plans.dag import Revision
from workflows.engine.plans.diff import (
    Change,
    change_in_payload,
    changed_plan,
    with_dependents,
    without_tasks,
)
from workflows.engine.protocol.state import HoldReason
from workflows.executions.selectors import settled_ids
from workflows.journal.writer import load_revision
from workflows.models import Hold

if TYPE_CHECKING:
    from django.http import QueryDict

REJECT_PRESETS = (N_("Not needed"), N_("Too much at once"), N_("Wrong tool"))


@dataclass(frozen=True, slots=True)
class KeptTasks:
    """The reviewer's selection: `gone` are the dropped tasks, with their dependents.

    `confirmed` is True if the reviewer has confirmed exactly this selection.
    """

    gone: frozenset[str] = frozenset()
    confirmed: bool = False
    errors: tuple[FieldError, ...] = ()

    @property
    def edits(self) -> dict[str, list[str]] | None:
        """Return the edits of the decision; None if the whole change is kept."""
        return {"drop": sorted(self.gone)} if self.gone else None


#: The initial selection.
ALL_KEPT = KeptTasks()


def is_plan_review(hold: Hold) -> bool:
    """Return whether the hold is a plan review."""
    return hold.reason == HoldReason.REPLAN_REVIEW


def _payload(hold: Hold) -> dict[str, Any]:
    return dict(hold.payload or {})


def parse_kept_tasks(data: QueryDict, hold: Hold) -> KeptTasks:
    """Parse the form of a plan review; other holds keep everything."""
    if not is_plan_review(hold):
        return ALL_KEPT
    change = change_in_payload(_payload(hold))
    kept = data.getlist("keep")
    dropped_ids = with_dependents(change, [task.id for task in change.added if task.id not in kept])
    dropped_ids &= {task.id for task in (*change.added, *change.changed)}
    errors: tuple[FieldError, ...] = ()
    if without_tasks(change, dropped_ids).is_empty:
        message = _("Nothing of the change is left. Keep at least one task, or reject the change.")
        errors = (FieldError("", message),)
    confirmed = frozenset(data.get("confirmed_drop", "").split()) == dropped_ids
    return KeptTasks(dropped_ids, confirmed, errors)


def plan_review_context(
    hold: Hold, view: Masked, kept: KeptTasks, decided: Any
) -> dict[str, Any] | None:
    """Return `d.plan_review` of the templates; None for other kinds of holds.

    `view` is the payload as people see it, `decided` the payload as it was approved, None while
    nobody has.
    """
    if not is_plan_review(hold):
        return None
    payload, shown = _payload(hold), dict(view.value or {})
    dropped_ids = _gone_from(payload, decided) if decided is not None else kept.gone
    return {
        "requirement": shown["requirement"],
        "asked_by": str(shown["asked_by"]).removeprefix("agent:"),
        "by_agent": str(shown["asked_by"]).startswith("agent:"),
        "gone": " ".join(sorted(dropped_ids)),
        "gone_words": ", ".join(sorted(dropped_ids)),
        "label": _label(dropped_ids),
        "moved": hold.status == Hold.Status.OPEN and hold.execution.revision != payload["revision"],
        **diff_context(_diff(hold, view, change_in_payload(payload), dropped_ids)),
    }


def _gone_from(payload: dict[str, Any], decided: Any) -> frozenset[str]:
    left = decided if isinstance(decided, dict) else {}
    return frozenset(payload["added"]) - frozenset(left.get("added", ()))


def _label(gone: frozenset[str]) -> str:
    if not gone:
        return _("Approve the change")
    if len(gone) == 1:
        return _("Approve without %(task)s") % {"task": next(iter(gone))}
    text = ngettext("Approve without %(n)s task", "Approve without %(n)s tasks", len(gone))
    return text % {"n": len(gone)}


def _diff(hold: Hold, view: Masked, change: Change, gone: frozenset[str]) -> PlanDiff:
    """Return the diff with the current plan, or with the plan at the time of the decision."""
    execution, payload = hold.execution, _payload(hold)
    is_open = hold.status == Hold.Status.OPEN
    before = load_revision(execution.pk, execution.revision if is_open else payload["revision"])
    begun = (execution.layer if is_open else hold.layer) + 1
    return PlanDiff(
        view=view,
        before=before.plan,
        old_layers=before.layers,
        layers=_layers(before, change, begun),
        change=change,
        why={name: each["why"] for name, each in payload["added"].items()},
        dropped=gone,
        done=settled_ids(execution, before.layers[:begun]),
    )


def _layers(before: Revision, change: Change, begun: int) -> tuple[tuple[str, ...], ...]:
    return before.revised(changed_plan(before.plan, change), begun=begun).layers
