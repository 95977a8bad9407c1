"""A layer approval as its reviewer sees it: one card per task of the next layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_

from reviews.audit.reveals import task_rules
from reviews.components.highlighting import lines_of
from reviews.components.reasons import render_reason
from reviews.components.value_view import value_view
from reviews.decisions.masking import Masked, masked
from workflows.engine.plans.dag import CapabilityTask, CodeTask, ToolTask
from workflows.engine.plans.task_errors import TaskFailed
from workflows.engine.policy.permissions import NAMED, cap
from workflows.engine.protocol.ports import FinishedTask
from workflows.engine.protocol.state import ExecutionState, HoldReason, SkipReason, load_state
from workflows.engine.protocol.status import TaskStatus
from workflows.engine.protocol.task_inputs import Spec, inputs_from, skip_reason
from workflows.executions.layer_summaries import short_name
from workflows.executions.selectors import TaskView, revision_of
from workflows.models import Hold

REJECT_PRESETS = (N_("Wrong arguments"), N_("Not now"), N_("Should not run at all"))

#: Tasks that get a card; further ones are named only.
_MAX_CARDS = 30

_SKIPS = {
    SkipReason.CONDITION: N_("Will be skipped: its condition is not met."),
    SkipReason.UPSTREAM_SKIPPED: N_("Will be skipped: a task that it needs was skipped."),
    SkipReason.UPSTREAM_FAILED: N_("Will be skipped: a task that it needs failed."),
}


@dataclass(frozen=True, slots=True)
class _Run:
    """The values of a run that the inputs of its tasks are made of."""

    inputs: Mapping[str, Any]
    context: Mapping[str, Any]
    state: ExecutionState


def layer_review_context(
    hold: Hold, tasks: Mapping[str, TaskView], view: Masked
) -> dict[str, Any] | None:
    """Return `d.layer_review` of the templates; None for every other kind of hold.

    `tasks` are the run's tasks by id.  Inputs of tasks that have not run are resolved here, so a
    card shows the values that the task would run with now.  `view` is the masked payload: a secret
    has the number in a card that reveals it there.
    """
    if hold.reason != HoldReason.LAYER_APPROVAL or not isinstance(hold.payload, dict):
        return None
    ids = [str(each.get("id")) for each in hold.payload.get("next_layer") or ()]
    listed = [tasks[name] for name in ids[:_MAX_CARDS] if name in tasks]
    rules = task_rules(hold.execution, listed)
    execution = hold.execution
    run = _Run(execution.inputs, execution.context, load_state(execution.state))
    ceiling = str(execution.policy.get("permission_ceiling") or "trusted")
    specs = revision_of(execution).plan.by_id
    cards = []
    for task in listed:
        note, inputs = _inputs(task, specs[task.id], run, tasks)
        view = masked(inputs, rules[task.id, "inputs"], after=view)
        cards.append(_card(task, specs[task.id], note, view, ceiling))
    return {
        "cards": tuple(cards),
        "more": ", ".join(ids[_MAX_CARDS:]),
        "summary": (hold.payload.get("summary") or "") if hold.layer else "",
    }


def _card(task: TaskView, spec: Spec, note: str, inputs: Masked, ceiling: str) -> dict[str, Any]:
    code = spec.code if isinstance(spec, CodeTask) else ""
    language = spec.language if isinstance(spec, CodeTask) else ""
    return {
        "id": task.id,
        "title": spec.title or task.id,
        "tool": short_name(task.target) if isinstance(spec, ToolTask) else task.target,
        "note": note,
        "inputs": value_view(inputs.value, inputs.rules.schema),
        "has_inputs": bool(inputs.value),
        "touches": _touches(spec, ceiling),
        "lines": tuple(
            {"number": line.number, "markup": line.markup, "marked": False}
            for line in lines_of(code, language)
        )
        if code
        else (),
        "reviewed": spec.human_review is not None and spec.human_review.enabled,
    }


def _inputs(
    task: TaskView,
    spec: Spec,
    run: _Run,
    tasks: Mapping[str, TaskView],
) -> tuple[str, Any]:
    """Return a note on the task, and its inputs: those it ran with, else resolved ones."""
    if task.inputs is not None:
        return "", task.inputs
    finished = {name: _finished(tasks[name]) for name in spec.needs if name in tasks}
    try:
        reason = skip_reason(spec, finished, run)
        if reason is not None:
            return _(_SKIPS[reason]), dict(spec.values)
        return "", inputs_from(run, spec, finished)
    except TaskFailed as failure:
        note = _("Will fail: %(error)s") % {"error": failure.message}
        return note, dict(spec.values)


def _finished(task: TaskView) -> FinishedTask:
    skip = SkipReason(task.skip_reason) if task.skip_reason else None
    return FinishedTask(TaskStatus(task.status), output=task.output, skip=skip)


def _touches(spec: Spec, ceiling: str) -> tuple[str, ...]:
    """Return what the permission set of the task allows below the run's ceiling, as sentences."""
    name = spec.permission_set
    if name is None and isinstance(spec, CapabilityTask):
        return (_("What the capability %(name)s may use.") % {"name": spec.capability},)
    # A tool task of an accepted plan names its set; the widest set of such tools covers the rest.
    own = NAMED.get(name or ("mcp-standard" if isinstance(spec, ToolTask) else "minimal"))
    limit = NAMED.get(ceiling)
    if own is None or limit is None:
        return (_("Unknown permissions: “%(name)s” is no permission set.") % {"name": name},)
    return tuple(render_reason(each) for each in cap(own, limit).descriptions())
