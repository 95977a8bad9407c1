"""The definitions: what a workflow does, and where somebody decides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Func, IntegerField, OuterRef, Value
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_

from reviews.components import labels as components_labels
from reviews.components.dag_svg import DagTask, Picture, layout, with_links
from reviews.components.number_formatting import COUNTED, counted, counted_at_least
from reviews.components.plan_diff import short
from reviews.planner.drafts import is_switched_on
from reviews.runs.policy_overrides_panel import floor_json
from reviews.templatetags.desk import duration_words
from workflows.engine.dag import CapabilityTask, CodeTask, Plan, ToolTask
from workflows.engine.plan_validation import PlanInvalid, parse_plan
from workflows.engine.policy import ReviewPolicy, TriggerPhase
from workflows.executions.access import ADMIN, may_start, roles_of, visible_to
from workflows.models import Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_LIMIT = 200
_LONGEST_NOTE = 18


def workflows_context(user: User) -> dict[str, Any]:
    """Every enabled workflow, with how often the user saw it run."""
    rows = Workflow.objects.filter(enabled=True).annotate(runs=_runs(user))
    return {
        "rows": tuple(_row(each) for each in rows.order_by("title")[:_LIMIT]),
        "admin_url": reverse("admin:workflows_workflow_changelist") if _may_edit(user) else "",
        "planner_url": reverse("reviews:planner") if may_start(user) else "",
        "floor_json": floor_json(),
        "next_url": "",
        "previous_url": "",
        "page_words": "",
    }


def _runs(user: User) -> Func:
    """How many runs of a workflow the user may see; COUNTED + 1 stands for more."""
    seen = visible_to(user).filter(workflow=OuterRef("pk")).order_by("-id")
    ones = ArraySubquery(seen.annotate(one=Value(1)).values("one")[: COUNTED + 1])
    return Func(ones, function="cardinality", output_field=IntegerField())


def _may_edit(user: User) -> bool:
    return user.is_staff and ADMIN in roles_of(user)


def _row(workflow: Any) -> dict[str, Any]:
    plan = plan_of(workflow)
    reviews = sum(1 for task in plan.tasks if _review(task)) if plan else 0
    layers = len(plan.layers()) if plan else 0
    tasks = counted(len(plan.tasks), "task") if plan else ""
    return {
        "url": reverse("reviews:workflow", args=(workflow.pk,)),
        "name": workflow.title,
        "description": workflow.description,
        "shape_words": _("%(tasks)s in %(layers)s")
        % {"tasks": tasks, "layers": counted(layers, "layer")}
        if plan
        else _("not valid"),
        "review_words": counted(reviews, "review") if reviews else _("no review"),
        "runs_words": counted_at_least(workflow.runs, "run"),
    }


def plan_of(workflow: Workflow) -> Plan | None:
    """The plan, or None when it is not valid (an admin saved it before a rule changed)."""
    try:
        return parse_plan(workflow.plan)
    except PlanInvalid:
        return None


def workflow_context(user: User, workflow: Workflow) -> dict[str, Any]:
    """One definition: its picture, its tasks, its decision points, its JSON."""
    plan = plan_of(workflow)
    admin_url = ""
    if _may_edit(user):
        admin_url = reverse("admin:workflows_workflow_change", args=(workflow.pk,))
    return {
        "name": workflow.title,
        "description": workflow.description,
        "admin_url": admin_url,
        "edit_url": f"{reverse('reviews:planner')}?workflow={workflow.pk}"
        if ADMIN in roles_of(user)
        else "",
        "picture": plan_picture(plan) if plan else layout([]),
        "holds": tuple(_holds(plan, workflow)) if plan else (),
        "tasks": tuple(_task(each) for each in plan.tasks) if plan else (),
        "plan_json": json.dumps(workflow.plan, indent=2, ensure_ascii=False),
    }


def plan_picture(plan: Plan) -> Picture:
    """The plan as it is drawn before it runs: no states, the tool as the note."""
    layers = [[_node(plan.by_id[name]) for name in layer] for layer in plan.layers()]
    return layout(with_links(layers, "#task-"))


def _node(task: ToolTask | CodeTask | CapabilityTask) -> DagTask:
    return DagTask(task.id, "", tuple(sorted(task.needs)), short(task.target, _LONGEST_NOTE))


def _review(task: ToolTask | CodeTask | CapabilityTask) -> ReviewPolicy | None:
    review = task.human_review
    return review if review is not None and review.enabled else None


def _task(task: ToolTask | CodeTask | CapabilityTask) -> dict[str, str]:
    review = _review(task)
    return {
        "id": task.id,
        "what": _("runs %(target)s") % {"target": task.target},
        "after": ", ".join(sorted(task.needs)),
        "review": components_labels.phase_words(review.trigger_phase.value) if review else "",
    }


def _holds(plan: Plan, workflow: Workflow) -> Iterator[str]:
    for task in plan.tasks:
        review = _review(task)
        if review is not None:
            yield _hold_words(task.id, review)
    policy = workflow.policy if isinstance(workflow.policy, dict) else {}
    hil = policy.get("hil")
    if isinstance(hil, dict) and hil.get("enabled"):
        yield _("Before each layer: somebody approves what comes next.")
    if is_switched_on(policy, "replan_review"):
        yield _(
            "Before a replan changes the plan: somebody sees what it would change, and decides."
        )
    if policy.get("per_layer_validation"):
        yield _("After each layer: an agent or a program decides whether to go on.")


#: Where a review stands, with one person or several.
_CHECKS = {
    (True, False): N_("Before %(task)s: %(who)s checks its arguments."),
    (True, True): N_("Before %(task)s: %(who)s (%(n)s people) checks its arguments."),
    (False, False): N_("After %(task)s: %(who)s checks its output."),
    (False, True): N_("After %(task)s: %(who)s (%(n)s people) checks its output."),
}
_ENDS = {
    "reject": N_("If nobody decides within %(time)s, it is rejected."),
    "approve": N_("If nobody decides within %(time)s, it is approved as it is."),
    "abort": N_("If nobody decides within %(time)s, the run is aborted."),
    "continue": N_("If nobody decides within %(time)s, the run goes on."),
}


def _hold_words(task_id: str, review: ReviewPolicy) -> str:
    before = review.trigger_phase is TriggerPhase.BEFORE_EXECUTION
    told = {
        "task": task_id,
        "who": components_labels.group_words(review.groups),
        "n": review.quorum,
    }
    text = _(_CHECKS[before, review.quorum > 1]) % told
    if review.on_timeout == "keep_waiting" or review.timeout_seconds is None:
        end = _("If nobody decides, it waits.")
    else:
        time = duration_words(review.timeout_seconds)
        end = _(_ENDS[review.on_timeout]) % {"time": time}
    return f"{text} {end}"
