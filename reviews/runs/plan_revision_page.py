"""One change of a run's plan, looked at afterwards: what was asked for, and what it changed."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_

from reviews.components import labels as components_labels
from reviews.components.plan_diff import PlanDiff, diff_context
from reviews.decisions.edits import secret_rules
from reviews.decisions.masking import masked
from workflows.common.redaction import mask_secrets
from workflows.engine.plan_diff import change_between
from workflows.executions.selectors import settled_ids
from workflows.journal.writer import load_revision
from workflows.models import Execution, ExecutionEvent, Hold, PlanRevision

_CAUSES = {
    "replan": N_("A replan changed the plan"),
    "inject_task": N_("A task was put into the plan"),
    "modify_args": N_("Arguments were changed in the plan"),
}


def revision_context(execution: Execution, number: int) -> dict[str, Any]:
    """`c` of the template; raises PlanRevision.DoesNotExist when no change led to that revision."""
    event = ExecutionEvent.objects.filter(
        execution=execution, kind="plan_revised", payload__revision=number
    ).first()
    if event is None:
        raise PlanRevision.DoesNotExist
    before, after = load_revision(execution.pk, number - 1), load_revision(execution.pk, number)
    told = event.payload
    shown = PlanDiff(
        view=masked(None, secret_rules(execution, None)),
        before=before.plan,
        old_layers=before.layers,
        layers=after.layers,
        change=change_between(before.plan, after.plan),
        why=told.get("why") or {},
        done=_done(execution, before.layers, after.layers),
    )
    hold = Hold.objects.filter(pk=told.get("hold_id") or "").first()
    asked_by = _asked_by(hold, event)
    return {
        "title": _(_CAUSES.get(told["cause"], N_("The plan was changed"))),
        "requirement": mask_secrets(told.get("requirement", "")),
        "number": number,
        "by": asked_by.removeprefix("agent:"),
        "by_agent": asked_by.startswith("agent:"),
        "approved_by": event.actor if hold else "",
        "at": event.created_at,
        "run_title": components_labels.run_title(execution.title, execution.pk),
        "run_url": f"{reverse('reviews:run', args=(execution.pk,))}#e{event.seq}",
        "review_url": reverse("reviews:decision", args=(execution.pk, hold.pk)) if hold else "",
        **diff_context(shown),
    }


def _asked_by(hold: Hold | None, event: ExecutionEvent) -> str:
    """Who wanted the change: of a reviewed one, not who approved it."""
    payload = hold.payload if hold is not None else None
    return str(payload["asked_by"]) if isinstance(payload, dict) else event.actor


def _done(
    execution: Execution, old: tuple[tuple[str, ...], ...], new: tuple[tuple[str, ...], ...]
) -> frozenset[str]:
    """What had surely run by then: the layers that both plans begin with."""
    same = [left for left, right in zip(old, new, strict=False) if left == right]
    return settled_ids(execution, same)


def plan_links(execution: Execution, events: list[ExecutionEvent]) -> dict[int, tuple[str, str]]:
    """Where the timeline leads on: seq → address and words."""
    found = {}
    for event in events:
        if event.kind == "plan_revised":
            place = (execution.pk, event.payload["revision"])
            found[event.seq] = (reverse("reviews:plan_change", args=place), _("See what changed"))
        elif event.kind == "hold_opened" and event.payload["reason"] == "replan_review":
            place = (execution.pk, event.payload["hold_id"])
            found[event.seq] = (
                reverse("reviews:decision", args=place),
                _("See the proposed change"),
            )
    return found
