"""Contexts of the planner and of the pages of workflows and tools."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Func, IntegerField, OuterRef, Value
from django.template.defaultfilters import floatformat
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from graphrag.catalogue.selectors import tools as all_tools
from graphrag.graph.neighbours import LearnedFrom, learned_from, neighbourhood
from graphrag.models import Tool
from graphrag.planning.plans import depends_on
from graphrag.prediction import followers
from reviews.authoring.definition_view import shown_definition
from reviews.authoring.fields import arguments_of, review_phase, values_of
from reviews.authoring.planner_draft import (
    Draft,
    is_switched_on,
    layers_signed,
    missing_inputs,
    pretty,
    schemas_of,
)
from reviews.authoring.rights import may_save
from reviews.components import labels as components_labels
from reviews.components.dag_svg import DagTask, Picture, layout, with_links
from reviews.components.number_formatting import (
    COUNTED,
    counted,
    counted_at_least,
    decimal,
    percent,
)
from reviews.components.plan_diff import short
from reviews.components.tables import Row, Table
from reviews.decisions.episodes import ToolMemory, memory_of_tools
from reviews.runs.panels import floor_json
from reviews.templatetags.desk import duration_text
from workflows.common.number_parsing import parse_natural_number
from workflows.engine.plans.dag import AnyTask, Plan, references
from workflows.engine.plans.risk import is_critical
from workflows.engine.plans.validation import PlanInvalid, Problem, parse_plan
from workflows.engine.policy.policies import LayerApproval, Policy, ReviewPolicy, TriggerPhase
from workflows.engine.protocol.status import ExecutionStatus, TaskStatus
from workflows.executions.access import ADMIN, may_start, roles_of, visible_to
from workflows.executions.definitions import WorkflowChanged, seen_mark
from workflows.executions.validation import InvalidRequest, check_plan
from workflows.models import Capability, Execution, ExecutionEvent, McpServer, Workflow
from workflows.planning.planner import known_tools, predict_next

if TYPE_CHECKING:
    from django.contrib.auth.models import User


_MAX_NAMES = 1000
#: The maximum number of tasks with form fields; later tasks are edited as JSON.
_MAX_WITH_FIELDS = 40
_NEAREST = 6
#: Probable next tools on the page of a tool.
_NEXT = 5

_REVIEWS = (
    ("", N_("nobody")),
    ("BEFORE_EXECUTION", N_("before it runs")),
    ("AFTER_EXECUTION", N_("after it ran")),
)
_SIGNED = (
    ("critical_only", N_("before layers that can modify data")),
    ("always", N_("before every layer")),
    ("", N_("before no layer")),
)


def planner_context(
    user: User,
    draft: Draft,
    checked: tuple[Problem, ...],
    conflict: WorkflowChanged | None = None,
    versions_page: str = "reviews:workflow_versions",
) -> dict[str, Any]:
    """Return `p` of the template; `checked` are the problems found by validation.

    `versions_page` is the URL name of the page of a workflow's versions.
    """
    missing = missing_inputs(draft)
    workflow = _workflow(draft)
    return {
        "draft": draft,
        "picture": _picture(draft),
        "tasks": tuple(_tasks(user, draft, checked)),
        "unlisted": max(0, len(draft.tasks) - _MAX_WITH_FIELDS),
        "nothing": draft.asked and not draft.tasks,
        "nearest": tuple(_nearest(draft)),
        "often_next": tuple(_next(draft)),
        "missing": tuple({"name": name, **about} for name, about in missing.items()),
        "given": tuple(name for name in draft.inputs if name not in missing),
        "faults": tuple(each for each in checked if not each.path.startswith("plan.tasks[")),
        "fault_count": len(checked),
        "tool_names": tuple(_names()),
        **policy_switches(draft.policy),
        "plan_json": pretty(draft.plan),
        "policy_json": pretty(draft.policy),
        "why_json": pretty(draft.why),
        "similar_json": pretty(draft.similar),
        "inputs_text": draft.inputs_text if _unreadable(draft) else _inputs(draft),
        "may_save": may_save(user),
        "workflow": workflow,
        "conflict": conflict_context(conflict, versions_page) if conflict else None,
        "floor_json": floor_json(),
    }


def conflict_context(conflict: WorkflowChanged, versions_page: str) -> dict[str, Any]:
    """Return who saved a workflow meanwhile, when and what, and the mark of a save over it."""
    newest = conflict.newest
    return {
        "at": conflict.workflow.updated_at,
        "author": (newest.author_name if newest else "") or _("the system"),
        "number": newest.number if newest else None,
        "comment": newest.comment if newest else "",
        "fields": ", ".join(conflict.fields),
        "versions_url": reverse(versions_page, args=(conflict.workflow.pk,)),
        "seen": seen_mark(conflict.workflow),
    }


def policy_switches(policy: dict[str, Any]) -> dict[str, Any]:
    """Return the switches of a policy: layer approval, replan review, pause after each layer."""
    return {
        "signed": tuple(
            {"value": value, "label": _(label), "chosen": value == layers_signed(policy)}
            for value, label in _SIGNED
        ),
        "replan_review": is_switched_on(policy, "replan_review"),
        "per_layer_validation": is_switched_on(policy, "per_layer_validation"),
    }


def _unreadable(draft: Draft) -> bool:
    return any(each.path == "inputs" for each in draft.problems)


def _inputs(draft: Draft) -> str:
    return pretty(draft.inputs) if draft.inputs else ""


def _workflow(draft: Draft) -> dict[str, str] | None:
    found = Workflow.objects.filter(pk=parse_natural_number(draft.workflow) or 0).first()
    if found is None:
        return None
    return {"title": found.title, "url": reverse("reviews:workflow", args=(found.pk,))}


def _picture(draft: Draft) -> Picture | None:
    """Return the diagram of the plan; None while the plan is invalid."""
    try:
        return plan_picture(parse_plan(draft.plan))
    except PlanInvalid:
        return None


def _names() -> list[str]:
    names = all_tools().filter(enabled=True).values_list("name", flat=True)
    return list(names[:_MAX_NAMES])


def _nearest(draft: Draft) -> list[dict[str, Any]]:
    """Return similar tools that are not in the plan, with their descriptions."""
    used = {str(task.get("tool")) for task in draft.tasks}
    names = [name for name in draft.similar if name not in used][:_NEAREST]
    known = known_tools(names)
    return [
        {
            "name": name,
            "fits": floatformat(draft.similar[name], 2),
            "told": known[name].description.split(". ")[0][:120] if name in known else "",
        }
        for name in names
    ]


def _next(draft: Draft) -> list[dict[str, Any]]:
    """Return read-only tools that followed the plan's tools in past runs, most likely first."""
    return [
        {
            "name": each.tool,
            "fits": _("likely %(percent)s %%") % {"percent": round(each.confidence * 100)},
            "told": _("used after %(tool)s in %(count)s earlier runs")
            % {"tool": each.after, "count": each.observed},
        }
        for each in predict_next([str(task["tool"]) for task in draft.tasks if task.get("tool")])
    ]


# --- tasks ----------------------------------------------------------------------------------------


def _tasks(user: User, draft: Draft, checked: tuple[Problem, ...]) -> list[dict[str, Any]]:
    schemas, tasks = schemas_of(draft.plan), draft.tasks[:_MAX_WITH_FIELDS]
    ids = [str(task.get("id", "")) for task in draft.tasks]
    about = known_tools(str(task.get("tool")) for task in tasks)
    memory = memory_of_tools(user, about)
    return [
        {
            **_task(at, task, ids, draft, schemas.get(at), about, checked),
            "memory": _memory(memory.get(target_of(task))),
        }
        for at, task in enumerate(tasks)
    ]


def _memory(found: ToolMemory | None) -> dict[str, Any] | None:
    """Return what people decided about earlier calls of the tool, for the page."""
    if found is None:
        return None
    total = found.approved + found.rejected
    text = ngettext(
        "People approved %(approved)s of the last %(n)s call.",
        "People approved %(approved)s of the last %(n)s calls.",
        total,
    )
    return {
        "text": text % {"approved": found.approved, "n": total},
        "refused": found.is_mostly_rejected,
        "comment": found.comment,
    }


def _task(
    at: int,
    task: dict[str, Any],
    ids: list[str],
    draft: Draft,
    schema: Any,
    about: dict[str, Any],
    checked: tuple[Problem, ...],
) -> dict[str, Any]:
    prefix = f"plan.tasks[{at}]"
    faults = [each for each in (*draft.problems, *checked) if is_about(each.path, prefix, f"t{at}")]
    found = task_context(at, task, ids, schema, about)
    return {
        **found,
        "why": _why(draft.why.get(ids[at]), found["target"]),
        "faults": [
            {
                "path": each.path.removeprefix(prefix).lstrip("."),
                "message": each.message,
            }
            for each in faults
        ],
    }


def task_context(
    at: int, task: dict[str, Any], ids: list[str], schema: Any, about: dict[str, Any]
) -> dict[str, Any]:
    """Return the fields of one task; `ids` are the ids of all tasks, `about` has tools by name."""
    target = target_of(task)
    known = about.get(target)
    needs = depends_on(task)
    return {
        "place": at,
        "key": f"t{at}",
        "id": ids[at],
        "target": target,
        "description": known.description.split("\n")[0][:200] if known else "",
        "permission": known.permission_set if known else str(task.get("permission_set") or ""),
        "arguments": arguments_of(task, schema, f"t{at}"),
        "sources": [each for each in ids if each != ids[at]],
        "needs": [{"id": each, "chosen": each in needs} for each in ids if each != ids[at]],
        "reads": ", ".join(sorted({*references(values_of(task))} - {"inputs", "context"})),
        "reviews": [
            {"value": value, "label": _(label), "chosen": value == review_phase(task)}
            for value, label in _REVIEWS
        ],
        "code": task.get("code", ""),
    }


def target_of(task: dict[str, Any]) -> str:
    """Return the name of what a task runs."""
    return str(
        task.get("tool")
        or task.get("capability")
        or _("%(language)s code") % {"language": task.get("language")}
    )


def _why(reason: Any, target: str) -> dict[str, Any] | None:
    """Return why a task was suggested, unless it calls another tool now."""
    if not isinstance(reason, dict) or reason.get("tool") != target:
        return None
    reasons, questions = reason.get("reasons"), reason.get("questions")
    return {
        "confidence": reason.get("confidence"),
        "words": ", ".join(str(each) for each in reasons) if isinstance(reasons, list) else "",
        "questions": tuple(str(each) for each in questions) if isinstance(questions, list) else (),
    }


def is_about(path: str, prefix: str, key: str) -> bool:
    """Return whether the path of a problem is that of a task or of one of its fields."""
    return path == prefix or path.startswith((f"{prefix}.", f"{prefix}[", f"{key}."))


# --- workflows ------------------------------------------------------------------------------------


_LIMIT = 200
_MAX_NOTE_LENGTH = 18


def workflows_context(user: User) -> dict[str, Any]:
    """Return the enabled workflows with the number of runs visible to the user."""
    rows = Workflow.objects.filter(enabled=True).annotate(runs=_runs(user))
    return {
        "rows": tuple(_row(each) for each in rows.order_by("title")[:_LIMIT]),
        "admin_url": reverse("admin:workflows_workflow_changelist") if _may_edit(user) else "",
        "planner_url": reverse("reviews:planner") if may_start(user) else "",
        "editor_url": reverse("reviews:editor") if may_start(user) else "",
        "floor_json": floor_json(),
    }


def _runs(user: User) -> Func:
    """Count the visible runs of a workflow; COUNTED + 1 means more."""
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
        "shape_text": _("%(tasks)s in %(layers)s")
        % {"tasks": tasks, "layers": counted(layers, "layer")}
        if plan
        else _("not valid"),
        "review_text": counted(reviews, "review") if reviews else _("no review"),
        "runs_text": counted_at_least(workflow.runs, "run"),
    }


def plan_of(workflow: Workflow) -> Plan | None:
    """Return the plan, or None if it is no longer valid under the current validation."""
    try:
        return parse_plan(workflow.plan)
    except PlanInvalid:
        return None


def workflow_context(user: User, workflow: Workflow) -> dict[str, Any]:
    """Return a workflow with its diagram, tasks, review points and JSON."""
    plan = plan_of(workflow)
    admin_url = ""
    if _may_edit(user):
        admin_url = reverse("admin:workflows_workflow_change", args=(workflow.pk,))
    return {
        "id": workflow.pk,
        "name": workflow.title,
        "description": workflow.description,
        "admin_url": admin_url,
        "edit_url": f"{reverse('reviews:editor')}?workflow={workflow.pk}" if may_save(user) else "",
        "copy_url": f"{reverse('reviews:editor')}?copy={workflow.pk}" if may_start(user) else "",
        "picture": plan_picture(plan) if plan else layout([]),
        "holds": tuple(_holds(plan, workflow)) if plan else (),
        "tasks": tuple(_workflow_task(each) for each in plan.tasks) if plan else (),
        "plan_json": pretty(
            workflow.plan if may_save(user) else shown_definition(workflow)["plan"]
        ),
    }


def plan_picture(plan: Plan) -> Picture:
    """Return the diagram of a plan without states; the tool is the note."""
    layers = [[_node(plan.by_id[name]) for name in layer] for layer in plan.layers()]
    return layout(with_links(layers, "#task-"))


def _node(task: AnyTask) -> DagTask:
    return DagTask(task.id, "", tuple(sorted(task.needs)), short(task.target, _MAX_NOTE_LENGTH))


def _review(task: AnyTask) -> ReviewPolicy | None:
    review = task.human_review
    return review if review is not None and review.enabled else None


def _workflow_task(task: AnyTask) -> dict[str, str]:
    review = _review(task)
    return {
        "id": task.id,
        "what": _("runs %(target)s") % {"target": task.target},
        "after": ", ".join(sorted(task.needs)),
        "review": components_labels.phase_text(review.trigger_phase.value) if review else "",
    }


def _holds(plan: Plan, workflow: Workflow) -> Iterator[str]:
    with suppress(InvalidRequest):
        # As a run starts: with the permission sets of the tools and the reviews of capabilities.
        plan = check_plan(workflow.plan)
    for task in plan.tasks:
        review = _review(task)
        if review is not None:
            yield _review_text(task.id, review)
    policy = Policy.model_validate(workflow.policy or {})
    if policy.hil.enabled and policy.hil.approval_required != "never":
        yield _layer_approval_text(plan, policy.hil)
    if policy.replan_review.enabled:
        who = components_labels.group_text(policy.replan_review.groups)
        text = _("Before a replan changes the plan: %(who)s approves the change.")
        yield text % {"who": who}
    if policy.per_layer_validation:
        yield _("After each layer: an agent decides whether to continue.")


def _layer_approval_text(plan: Plan, approval: LayerApproval) -> str:
    """Return which layers of the plan need approval, by whom, and the effect of the timeout."""
    layers = [
        str(number)
        for number, layer in enumerate(plan.layers(), start=1)
        if any(is_critical(plan.by_id[name]) for name in layer)
    ]
    params = {"who": components_labels.group_text(approval.groups), "layers": ", ".join(layers)}
    if approval.approval_required == "always":
        text = _("Before each layer: %(who)s approves it.")
    elif layers:
        text = _(
            "Before each layer that can modify data (here %(layers)s): %(who)s approves it."
            " Other layers need no approval."
        )
    else:
        text = _(
            "Before each layer that can modify data: %(who)s approves it."
            " This plan has no such layer."
        )
    end = _(_ENDS[approval.on_timeout]) % {"time": duration_text(approval.timeout_seconds)}
    return f"{text % params} {end}"


#: (before execution, more than one person) → the sentence about a review.
_CHECKS = {
    (True, False): N_("Before %(task)s: %(who)s checks its arguments."),
    (True, True): N_("Before %(task)s: %(who)s (%(n)s people) checks its arguments."),
    (False, False): N_("After %(task)s: %(who)s checks its output."),
    (False, True): N_("After %(task)s: %(who)s (%(n)s people) checks its output."),
}
_ENDS = {
    "reject": N_("If nobody decides within %(time)s, it is rejected."),
    "approve": N_("If nobody decides within %(time)s, it is approved unchanged."),
    "abort": N_("If nobody decides within %(time)s, the run is aborted."),
    "continue": N_("If nobody decides within %(time)s, the run continues."),
}


def _review_text(task_id: str, review: ReviewPolicy) -> str:
    before = review.trigger_phase is TriggerPhase.BEFORE_EXECUTION
    params = {
        "task": task_id,
        "who": components_labels.group_text(review.groups),
        "n": review.quorum,
    }
    text = _(_CHECKS[before, review.quorum > 1]) % params
    if review.on_timeout == "keep_waiting" or review.timeout_seconds is None:
        end = _("There is no timeout.")
    else:
        time = duration_text(review.timeout_seconds)
        end = _(_ENDS[review.on_timeout]) % {"time": time}
    return f"{text} {end}"


# --- tools ----------------------------------------------------------------------------------------


def tool_context(tool: Tool) -> dict[str, Any]:
    """Return `tool` of the template."""
    return {
        "around": neighbourhood(tool, _address),
        "next": _next_table(tool),
        "marks": tuple(_marks(tool)),
        "id": tool.pk,
        "server": tool.server,
        "server_id": McpServer.objects.filter(name=tool.server)
        .values_list("pk", flat=True)
        .first(),
        "capability_id": Capability.objects.filter(name=tool.name.removeprefix("capability."))
        .values_list("pk", flat=True)
        .first()
        if tool.kind == "capability"
        else None,
    }


def _next_table(tool: Tool) -> Table:
    """Return the tools that probably run after a tool; without rows if past runs show none."""
    found = followers(tool.name, limit=_NEXT)
    runs = found[0].runs if found else 0
    return Table(
        key="next-title",
        heading=_("Probable next tools"),
        note=ngettext(
            "This tool ran %(n)s time in past runs.",
            "This tool ran %(n)s times in past runs.",
            runs,
        )
        % {"n": runs},
        first=_("Tool"),
        columns=(_("Probability"), _("Ran next")),
        rows=tuple(
            Row(
                links=((each.tool, tool_url(each.tool)),),
                cells=(percent(each.confidence), each.observed),
            )
            for each in found
        ),
        is_code=True,
    )


def _address(tool: Tool) -> str:
    return tool_url(tool.name)


def tool_url(name: str) -> str:
    """Return the URL of a tool; "" if its name cannot be part of a URL."""
    try:
        return reverse("reviews:tool", args=(name,))
    except NoReverseMatch:
        return ""


def _marks(tool: Tool) -> list[str]:
    marks = [tool.get_kind_display(), _("permission set %(name)s") % {"name": tool.permission_set}]
    marks += [_("read-only")] if tool.read_only else []
    marks += [_("can destroy data")] if tool.can_destroy else []
    marks += [_("idempotent")] if tool.idempotent else []
    if tool.vanished:
        marks.append(_("missing: its server no longer lists it"))
    elif not tool.enabled:
        marks.append(_("disabled"))
    return marks


def learned_context(execution: Execution) -> dict[str, Any]:
    """Return what the tool graph learned from a run, or the reason for nothing."""
    taught = learned_from(str(execution.pk))
    return {
        "title": components_labels.run_title(execution.title, execution.pk),
        "run_url": reverse("reviews:run", args=(execution.pk,)),
        "taught": taught,
        "sentence": _sentence(taught) if taught else "",
        "tables": (_pairs(taught), _ranks(taught)) if taught else (),
        "nothing": "" if taught else _why_nothing(execution),
    }


def _sentence(taught: LearnedFrom) -> str:
    new = sum(edge.new for edge in taught.edges)
    seen = len(taught.edges) - new
    if not taught.edges:
        return _("No tool followed another one in this run, so there was nothing to learn.")
    parts = []
    if new:
        text = ngettext(
            "%(n)s pair of tools seen for the first time",
            "%(n)s pairs of tools seen for the first time",
            new,
        )
        parts.append(text % {"n": new})
    if seen:
        text = ngettext("%(n)s pair seen again", "%(n)s pairs seen again", seen)
        parts.append(text % {"n": seen})
    return f"{', '.join(parts)}."


def _pairs(taught: LearnedFrom) -> Table:
    """Return pairs of consecutive tools with the number of runs."""
    return Table(
        key="edges-title",
        heading=_("Tools used in sequence"),
        first=_("Tool → next tool"),
        columns=(_("Runs"), _("Confidence")),
        rows=tuple(
            Row(
                links=tuple((name, tool_url(name)) for name in (edge.from_tool, edge.to_tool)),
                tag=_("new") if edge.new else "",
                cells=(edge.count, decimal(edge.confidence, 2)),
            )
            for edge in taught.edges
        ),
        is_code=True,
    )


def _ranks(taught: LearnedFrom) -> Table:
    """Return the changed PageRank of the tools."""
    return Table(
        key="ranks-title",
        heading=_("Updated tool ranks"),
        note=_("PageRank, as a multiple of the average."),
        first=_("Tool"),
        columns=(_("Before"), _("After"), _("Change")),
        rows=tuple(
            Row(
                links=((rank.tool, tool_url(rank.tool)),),
                cells=(decimal(rank.before, 3), decimal(rank.after, 3), _moved(rank.change)),
            )
            for rank in taught.ranks
        ),
        is_code=True,
    )


def _moved(share: float) -> str:
    if abs(share) < 0.0005:
        return _("unchanged")
    sign = "+" if share > 0 else "\N{MINUS SIGN}"
    return f"{sign}{percent(abs(share), 1)}"


def _why_nothing(execution: Execution) -> str:
    if not ExecutionStatus(execution.status).is_final:
        return _("The graph learns from a run when it has ended.")
    failed = ExecutionEvent.objects.filter(execution=execution, kind="graph_update_failed").last()
    if failed is not None:
        error = failed.payload.get("error", "")
        return _("The graph could not be updated: %(error)s") % {"error": error}
    if not execution.attempts.filter(settled=True, status=TaskStatus.SUCCEEDED).exists():
        return _("The graph learns only from runs in which a task succeeded.")
    return _("The graph learns in the background, a few seconds after a run has ended.")
