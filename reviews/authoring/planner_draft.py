"""The draft of a plan: parsed from the form on each request, and edited."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from graphrag.catalogue.tool_record import ToolRecord
from workflows.engine.plans.validation import Problem
from workflows.engine.values.bounded_json import BoundedJSONError, parse
from workflows.permissions import capabilities
from workflows.planning.planner import MAX_INTENT, known_tools, suggest

from .fields import asked_inputs, posted_plan, read_value
from .plan_edits import EditRefused, add_task, remove_task

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.http import QueryDict

#: Default policy of a new plan: approval of layers that can modify data.
CAREFUL: dict[str, Any] = {
    "hil": {"enabled": True, "approval_required": "critical_only", "timeout_seconds": 86_400}
}
_NOTHING: dict[str, Any] = {"tasks": []}


@dataclass(frozen=True, slots=True)
class Draft:
    """The state of the form.  Texts are unparsed; `problems` have paths of fields."""

    intent: str = ""
    title: str = ""
    workflow: str = ""
    seen: str = ""
    inputs: dict[str, Any] = field(default_factory=dict)
    inputs_text: str = ""
    plan: dict[str, Any] = field(default_factory=lambda: dict(_NOTHING))
    plan_text: str = ""
    policy: dict[str, Any] = field(default_factory=lambda: dict(CAREFUL))
    policy_text: str = ""
    why: dict[str, Any] = field(default_factory=dict)
    similar: dict[str, float] = field(default_factory=dict)
    confidence: float | None = None
    asked: bool = False
    warnings: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def tasks(self) -> list[dict[str, Any]]:
        return [task for task in self.plan.get("tasks", ()) if isinstance(task, dict)]


def schemas_of(plan: dict[str, Any]) -> dict[int, Any]:
    """Return the input schema of each task by index; unknown tools have none."""
    tasks = [task for task in plan.get("tasks", ()) if isinstance(task, dict)]
    tools = known_tools(str(task.get("tool")) for task in tasks if task.get("type") == "tool")
    stored = capabilities.load(
        [str(task.get("capability")) for task in tasks if task.get("type") == "capability"]
    )
    found: dict[int, Any] = {}
    for at, task in enumerate(tasks):
        name = str(task.get("tool") or task.get("capability") or "")
        known = tools.get(name) if task.get("type") == "tool" else stored.get(name)
        if known is not None:
            found[at] = known.input_schema
    return found


def pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


# --- reading the form -----------------------------------------------------------------------------


def posted_draft(data: QueryDict) -> Draft:
    """Parse the form; invalid texts are kept and reported as problems."""
    problems: list[Problem] = []
    base = _object(data.get("plan", ""), "plan", [], _NOTHING)
    draft = Draft(
        intent=_clean_text(data.get("intent", ""), MAX_INTENT),
        title=_clean_text(data.get("title", ""), 200),
        workflow=data.get("workflow", ""),
        seen=data.get("seen", "")[:40],
        inputs=_object(data.get("inputs_text", ""), "inputs", problems, {}),
        inputs_text=_typed(data, "inputs_text"),
        policy_text=_typed(data, "policy_text"),
        plan_text=_typed(data, "plan_text"),
        why=_object(data.get("why", ""), "why", [], {}),
        similar=_numbers(_object(data.get("similar", ""), "similar", [], {})),
        asked=True,
    )
    plan = _plan(data, base, problems)
    draft = replace(draft, plan=plan, policy=_policy(data, problems))
    inputs = _named_inputs(data, draft, problems)
    return replace(draft, inputs=inputs, problems=tuple(problems))


def _numbers(found: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


def _clean_text(text: str, longest: int) -> str:
    return text.replace("\0", "").replace("\r\n", "\n").strip()[:longest]


def _typed(data: QueryDict, name: str) -> str:
    return data.get(name, "").replace("\r\n", "\n").strip()


def _object(
    text: str, path: str, problems: list[Problem], otherwise: dict[str, Any]
) -> dict[str, Any]:
    if not text.strip():
        return dict(otherwise)
    try:
        value = parse(text)
    except BoundedJSONError as error:
        problems.append(Problem(path, "malformed", f"invalid JSON: {error}"))
        return dict(otherwise)
    if not isinstance(value, dict):
        problems.append(Problem(path, "not_an_object", "must be a JSON object, as in {}"))
        return dict(otherwise)
    return value


def _plan(data: QueryDict, base: dict[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """Parse the plan from its fields, or from its JSON if that was edited."""
    if not _has_tasks(base):
        base = dict(_NOTHING)
    posted = posted_plan(base, schemas_of(base), data)
    by_fields = posted.plan
    typed = _typed(data, "plan_text")
    if not typed or typed == pretty(base):
        problems += [Problem(each.path, "unreadable", each.message) for each in posted.errors]
        return by_fields
    if by_fields != base:
        message = (
            "both the fields and the JSON were changed; the JSON is used, "
            "so repeat the changes of the fields"
        )
        problems.append(Problem("plan", "two_edits", message))
    found = _object(typed, "plan", problems, by_fields)
    if not _has_tasks(found):
        problems.append(Problem("plan.tasks", "required", "a plan has a list of tasks"))
        return by_fields
    return found


def _has_tasks(plan: dict[str, Any]) -> bool:
    tasks = plan.get("tasks")
    return isinstance(tasks, list) and all(isinstance(task, dict) for task in tasks)


def _policy(data: QueryDict, problems: list[Problem]) -> dict[str, Any]:
    """Parse the policy from its switches, or from its JSON if that was edited."""
    base = _object(data.get("policy", ""), "policy", [], CAREFUL)
    typed = _typed(data, "policy_text")
    if typed and typed != pretty(base):
        return _object(typed, "policy", problems, base)
    return switched_policy(base, data)


def switched_policy(base: dict[str, Any], data: QueryDict) -> dict[str, Any]:
    """Return the policy with the posted switches; without them it does not change."""
    if "hil" not in data:
        return base
    wanted = data.get("hil", "")
    policy = dict(base)
    if wanted != layers_signed(base):
        old: Any = base.get("hil") if isinstance(base.get("hil"), dict) else CAREFUL["hil"]
        policy["hil"] = {**old, "enabled": bool(wanted)}
        if wanted:
            policy["hil"]["approval_required"] = wanted
    for name in ("replan_review", "per_layer_validation"):
        is_on = data.get(name) == "on"
        if is_on != is_switched_on(base, name):
            policy[name] = is_on
    return policy


def layers_signed(policy: dict[str, Any]) -> str:
    """Return `hil` as always, critical_only or "" for never."""
    hil = policy.get("hil")
    if not isinstance(hil, dict) or not hil.get("enabled"):
        return ""
    wanted = str(hil.get("approval_required", "always"))
    return "" if wanted == "never" else wanted


def is_switched_on(policy: dict[str, Any], name: str) -> bool:
    value = policy.get(name)
    return bool(value.get("enabled")) if isinstance(value, dict) else bool(value)


def _named_inputs(data: QueryDict, draft: Draft, problems: list[Problem]) -> dict[str, Any]:
    """Return the inputs with the values of the fields of missing inputs."""
    inputs = dict(draft.inputs)
    for name, about in asked_inputs(draft.plan, schemas_of(draft.plan)).items():
        text = data.get(f"in.{name}", "").replace("\r\n", "\n")
        if text == "" or name in inputs:
            continue
        try:
            inputs[name] = read_value(text, about["types"])
        except ValueError as error:
            problems.append(Problem(f"inputs.{name}", "malformed", str(error)))
    return inputs


def missing_inputs(draft: Draft) -> dict[str, dict[str, Any]]:
    """Return the inputs that the plan reads and the draft lacks."""
    asked = asked_inputs(draft.plan, schemas_of(draft.plan))
    return {name: about for name, about in asked.items() if name not in draft.inputs}


# --- edits ----------------------------------------------------------------------------------------


def suggested(draft: Draft, user: User) -> Draft:
    """Return the draft with a suggested plan for its intent; unchanged without a plan."""
    if not draft.intent:
        problem = Problem("intent", "required", "describe the task in a few words")
        return replace(draft, problems=(*draft.problems, problem))
    found = suggest(draft.intent, draft.inputs, user)
    draft = replace(
        draft,
        asked=True,
        confidence=found.confidence,
        similar=dict(found.similar),
        warnings=found.warnings,
    )
    if found.plan is None:
        return draft
    return replace(draft, plan=found.plan, why=dict(found.why), plan_text="")


def removed(draft: Draft, at: int) -> Draft:
    """Return the draft without one task, with a warning per lost argument source."""
    try:
        edited = remove_task(draft.plan, at)
    except EditRefused:
        return draft
    warnings = (*draft.warnings, *edited.warnings)
    return replace(draft, plan=edited.plan, plan_text="", warnings=warnings)


def added(draft: Draft, name: str) -> Draft:
    """Return the draft with another task that calls this tool."""
    tool = known_tools([name]).get(name)
    if tool is None or not tool.enabled:
        problem = Problem("add_tool", "unknown_tool", f"there is no tool {name!r} to be added")
        return replace(draft, problems=(*draft.problems, problem))
    plan = add_task(draft.plan, new_task(tool), name.rpartition(".")[2]).plan
    return replace(draft, plan=plan, plan_text="")


def new_task(tool: ToolRecord) -> dict[str, Any]:
    """Return a task without an id and without arguments that runs this tool or capability."""
    if tool.kind == "capability":
        own = tool.name.rpartition(".")[2]
        return {"type": "capability", "capability": own, "inputs": {}}
    return {"type": "tool", "tool": tool.name, "arguments": {}}
