"""Texts about a hold in the reader's language: its heading, and the effect of each decision."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from workflows.executions.layer_summaries import one_line, short_name

__all__ = ["approved", "closed_headline", "headline", "one_line", "rejected"]

#: Kind of hold → its heading, and its sentence with the run it is in. `task` is a task's id.
_HEADLINES: Final = {
    "before_execution": (
        N_("%(tool)s will run with these arguments"),
        N_("%(tool)s will run in “%(run)s”"),
    ),
    "after_execution": (
        N_("Review output of %(task)s"),
        N_("Review output of %(task)s in “%(run)s”"),
    ),
    "layer_approval": (
        N_("The next layer waits for approval"),
        N_("The next layer in “%(run)s” waits for approval"),
    ),
    "layer_validation": (
        N_("A finished layer waits for a check"),
        N_("A finished layer in “%(run)s” waits for a check"),
    ),
    "escalation": (
        N_("%(task)s asks for more permission"),
        N_("%(task)s asks for more permission in “%(run)s”"),
    ),
    "agent_decision": (
        N_("An agent has to decide"),
        N_("An agent has to decide in “%(run)s”"),
    ),
    "replan_review": (
        N_("Review plan change"),
        N_("Review plan change in “%(run)s”"),
    ),
}
_OTHER: Final = (
    N_("%(task)s waits for a decision"),
    N_("%(task)s waits for a decision in “%(run)s”"),
)


#: Kind of hold → its heading once nobody can decide any more.
_CLOSED_HEADLINES: Final = {
    "before_execution": N_("Arguments of %(tool)s"),
    "after_execution": N_("Output of %(task)s"),
    "layer_approval": N_("Approval of a layer"),
    "layer_validation": N_("Check of a layer"),
    "escalation": N_("Permission for %(task)s"),
    "agent_decision": N_("Decision of an agent"),
    "replan_review": N_("Plan change"),
}


def headline(phase: str, tool: str, task_id: str, workflow_title: str = "") -> str:
    """Return one sentence for a hold: "write_file will run in “Release notes”".

    `phase` is BEFORE_EXECUTION, AFTER_EXECUTION, or the reason of a hold without a phase. Without
    `workflow_title` the sentence is the heading of the decision itself.
    """
    alone, within = _HEADLINES.get(phase.lower(), _OTHER)
    params = {
        "tool": short_name(tool) or task_id,
        "task": task_id or _("A task"),
        "run": workflow_title,
    }
    return _(within if workflow_title else alone) % params


def closed_headline(phase: str, tool: str, task_id: str) -> str:
    """Return the heading of a hold that is decided, timed out or closed."""
    heading = _CLOSED_HEADLINES.get(phase.lower(), N_("Review of %(task)s"))
    return _(heading) % {"tool": short_name(tool) or task_id, "task": task_id or _("a task")}


def approved(phase: str, tool: str, task_id: str) -> str:
    """Return the effect of approving."""
    params = {"tool": short_name(tool) or task_id, "task": task_id}
    match phase.lower():
        case "before_execution":
            return _("Runs %(tool)s as shown.") % params
        case "after_execution":
            return _("Continues with this output.") % params
        case "escalation":
            return _("Reruns %(task)s with the requested permission.") % params
        case "replan_review":
            return _("Changes the plan as shown; tasks that have started stay as they are.")
    return _("Continues the run.")


def rejected(on_reject: str, skipped: int = 0) -> str:
    """Return the effect of rejecting; `skipped` is the number of tasks that depend on this one."""
    if on_reject == "abort":
        return _("Aborts the run.")
    if on_reject == "keep_plan":
        return _("Continues the run with the present plan.")
    if on_reject == "fail":
        return _fails(skipped)
    if not skipped:
        return _("Skips this task; the rest continues.")
    text = ngettext(
        "Skips this task and %(n)s task that needs it; the rest continues.",
        "Skips this task and %(n)s tasks that need it; the rest continues.",
        skipped,
    )
    return text % {"n": skipped}


def _fails(skipped: int) -> str:
    if not skipped:
        return _("Fails this task; independent tasks continue.")
    text = ngettext(
        "Fails this task and skips %(n)s task that needs it; independent tasks continue.",
        "Fails this task and skips %(n)s tasks that need it; independent tasks continue.",
        skipped,
    )
    return text % {"n": skipped}
