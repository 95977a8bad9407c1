"""Planning from words: an intent, the plan that known tools make of it, and everything to edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.template.defaultfilters import floatformat
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_

from graphrag.catalogue.selectors import tools as all_tools
from graphrag.catalogue.selectors import tools_by_name
from reviews.planner.drafts import (
    Draft,
    is_switched_on,
    layers_signed,
    missing_inputs,
    pretty,
    schemas_of,
)
from reviews.planner.fields import arguments_of, review_phase, values_of
from reviews.runs.policy_overrides_panel import floor_json
from workflows.common.number_parsing import parse_natural_number
from workflows.engine.dag import references
from workflows.engine.plan_validation import PlanInvalid, Problem, parse_plan
from workflows.executions.access import ADMIN, roles_of
from workflows.models import Workflow
from workflows.planning.planner import predict_next

from .workflows_page import plan_picture

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from reviews.components.dag_svg import Picture

_MAX_NAMES = 1000
#: Tasks with fields of their own; a longer plan is edited as JSON from there on.
_MAX_WITH_FIELDS = 40
_NEAREST = 6

_REVIEWS = (
    ("", N_("nobody")),
    ("BEFORE_EXECUTION", N_("before it runs")),
    ("AFTER_EXECUTION", N_("after it ran")),
)
_SIGNED = (
    ("critical_only", N_("before layers that do more than read")),
    ("always", N_("before every layer")),
    ("", N_("before no layer")),
)


def may_save(user: User) -> bool:
    """Who keeps workflows: admins, as over REST."""
    return ADMIN in roles_of(user)


def planner_context(user: User, draft: Draft, checked: tuple[Problem, ...]) -> dict[str, Any]:
    """`p` of the template; `checked` are the faults that the plan's check found."""
    missing = missing_inputs(draft)
    workflow = _workflow(draft)
    return {
        "draft": draft,
        "picture": _picture(draft),
        "tasks": tuple(_tasks(draft, checked)),
        "unlisted": max(0, len(draft.tasks) - _MAX_WITH_FIELDS),
        "nothing": draft.asked and not draft.tasks,
        "nearest": tuple(_nearest(draft)),
        "often_next": tuple(_next(draft)),
        "missing": tuple({"name": name, **about} for name, about in missing.items()),
        "given": tuple(name for name in draft.inputs if name not in missing),
        "faults": tuple(each for each in checked if not each.path.startswith("plan.tasks[")),
        "fault_count": len(checked),
        "tool_names": tuple(_names()),
        "signed": tuple(
            {"value": value, "label": _(label), "chosen": value == layers_signed(draft.policy)}
            for value, label in _SIGNED
        ),
        "replan_review": is_switched_on(draft.policy, "replan_review"),
        "per_layer_validation": is_switched_on(draft.policy, "per_layer_validation"),
        "plan_json": pretty(draft.plan),
        "policy_json": pretty(draft.policy),
        "why_json": pretty(draft.why),
        "similar_json": pretty(draft.similar),
        "inputs_text": draft.inputs_text if _unreadable(draft) else _inputs(draft),
        "may_save": may_save(user),
        "workflow": workflow,
        "floor_json": floor_json(),
        "url": reverse("reviews:planner"),
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
    """The plan as it is drawn; None while it is none."""
    try:
        return plan_picture(parse_plan(draft.plan))
    except PlanInvalid:
        return None


def _names() -> list[str]:
    names = all_tools().filter(enabled=True).values_list("name", flat=True)
    return list(names[:_MAX_NAMES])


def _nearest(draft: Draft) -> list[dict[str, Any]]:
    """Tools that came near the intent and are not in the plan, with what they do."""
    used = {str(task.get("tool")) for task in draft.tasks}
    names = [name for name in draft.similar if name not in used][:_NEAREST]
    known = tools_by_name(names)
    return [
        {
            "name": name,
            "fits": floatformat(draft.similar[name], 2),
            "told": known[name].description.split(". ")[0][:120] if name in known else "",
        }
        for name in names
    ]


def _next(draft: Draft) -> list[dict[str, Any]]:
    """Tools that only read and followed the plan's in earlier runs, the likeliest first."""
    return [
        {
            "name": each.tool,
            "fits": _("likely %(percent)s %%") % {"percent": round(each.confidence * 100)},
            "told": _("followed %(tool)s in %(count)s earlier runs")
            % {"tool": each.after, "count": each.observed},
        }
        for each in predict_next([str(task["tool"]) for task in draft.tasks if task.get("tool")])
    ]


# --- tasks ----------------------------------------------------------------------------------------


def _tasks(draft: Draft, checked: tuple[Problem, ...]) -> list[dict[str, Any]]:
    schemas, tasks = schemas_of(draft.plan), draft.tasks[:_MAX_WITH_FIELDS]
    ids = [str(task.get("id", "")) for task in draft.tasks]
    about = tools_by_name(str(task.get("tool")) for task in tasks)
    return [
        _task(at, task, ids, draft, schemas.get(at), about, checked)
        for at, task in enumerate(tasks)
    ]


def _task(
    at: int,
    task: dict[str, Any],
    ids: list[str],
    draft: Draft,
    schema: Any,
    about: dict[str, Any],
    checked: tuple[Problem, ...],
) -> dict[str, Any]:
    key, name = f"t{at}", ids[at]
    target = str(
        task.get("tool")
        or task.get("capability")
        or _("%(language)s code") % {"language": task.get("language")}
    )
    told = draft.why.get(name)
    prefix = f"plan.tasks[{at}]"
    faults = [each for each in (*draft.problems, *checked) if _is_about(each.path, prefix, key)]
    known = about.get(target)
    return {
        "place": at,
        "key": key,
        "id": name,
        "target": target,
        "description": known.description.split("\n")[0][:200] if known else "",
        "permission": known.permission_set if known else str(task.get("permission_set") or ""),
        "why": _why(told, target),
        "arguments": arguments_of(task, schema, key),
        "sources": [each for each in ids if each != name],
        "needs": [
            {"id": each, "chosen": each in (task.get("depends_on") or ())}
            for each in ids
            if each != name
        ],
        "reads": ", ".join(sorted({*references(values_of(task))} - {"inputs", "context"})),
        "reviews": [
            {"value": value, "label": _(label), "chosen": value == review_phase(task)}
            for value, label in _REVIEWS
        ],
        "code": task.get("code", ""),
        "faults": [
            {
                "path": each.path.removeprefix(prefix).lstrip("."),
                "message": each.message,
            }
            for each in faults
        ],
    }


def _why(told: Any, target: str) -> dict[str, Any] | None:
    """What speaks for a task, unless it calls another tool by now."""
    if not isinstance(told, dict) or told.get("tool") != target:
        return None
    reasons = told.get("reasons")
    return {
        "confidence": told.get("confidence"),
        "words": ", ".join(str(each) for each in reasons) if isinstance(reasons, list) else "",
    }


def _is_about(path: str, prefix: str, key: str) -> bool:
    return path == prefix or path.startswith((f"{prefix}.", f"{prefix}[", f"{key}."))
