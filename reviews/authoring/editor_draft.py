"""The draft of a workflow in the plan editor.  The page sends the whole draft with each request."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from graphrag.planning.plans import dependencies
from reviews.components import labels
from reviews.templatetags.desk import dom_id
from workflows.common.number_parsing import parse_natural_number
from workflows.common.redaction import mask_secrets
from workflows.engine.plans.dag import MAX_TASKS
from workflows.engine.plans.validation import Problem
from workflows.engine.values.bounded_json import BoundedJSONError, parse
from workflows.executions.definitions import seen_mark
from workflows.models import Workflow
from workflows.planning.planner import known_tools

from . import plan_edits
from .editor_inputs import with_posted_inputs
from .editor_policy import with_policy_fields
from .fields import arguments_of, posted_plan, values_of
from .input_form import Examples
from .plan_edits import TOO_MANY, Edited, EditRefused
from .planner_draft import CAREFUL, Draft, new_task, schemas_of, switched_policy
from .policy_form import typed_texts
from .rule_rows import path_text
from .workflow_files import LIMITS, OBJECTS, TEXTS, free_title, has_tasks

if TYPE_CHECKING:
    from django.http import QueryDict

    from workflows.models import Execution

_TEXTS = {
    **TEXTS,
    "comment": 1000,
    "workflow": 20,
    "seen": 40,
    "run": 20,
}
#: The page sends the whole draft; the size of its request is limited.
DRAFT_LIMITS = replace(LIMITS, max_bytes=4 * LIMITS.max_bytes)
_CODE = {"python": "output = {}\noutput\n", "typescript": "export default {};\n"}


@dataclass(frozen=True, slots=True)
class EditorDraft:
    """A workflow that is not saved yet.

    `workflow` is the id of the workflow to save over, `seen` its time of change when the editor
    was opened; both are empty for a new one.  `run` is the id of the run that the draft was made
    from.  `selected` is the position of the task whose form is open, or -1.  `typed` holds texts
    that could not be read, by the key of their field.  `browsed` is the key of the argument whose
    value browser is open, `browsed_source` the source shown there, and `focus` the id of the
    element to focus.  `examples` are the values in the preview of the inputs, None without a
    preview.  A check sends the rows of the inputs, their JSON and the form of the task again if
    they are stale.
    """

    title: str = ""
    name: str = ""
    description: str = ""
    comment: str = ""
    workflow: str = ""
    seen: str = ""
    run: str = ""
    plan: dict[str, Any] = field(default_factory=lambda: {"tasks": []})
    policy: dict[str, Any] = field(default_factory=lambda: dict(CAREFUL))
    inputs_schema: dict[str, Any] = field(default_factory=dict)
    default_inputs: dict[str, Any] = field(default_factory=dict)
    selected: int = -1
    warnings: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    typed: dict[str, str] = field(default_factory=dict)
    browsed: str = ""
    browsed_source: str = ""
    focus: str = ""
    examples: Examples | None = None
    rows_are_stale: bool = False
    json_is_stale: bool = False
    task_is_stale: bool = False

    @property
    def tasks(self) -> list[dict[str, Any]]:
        return [task for task in self.plan.get("tasks", ()) if isinstance(task, dict)]

    def as_json(self) -> str:
        """Return what the page keeps and sends again."""
        names = (*_TEXTS, *OBJECTS)
        return json.dumps({name: getattr(self, name) for name in names}, ensure_ascii=False)

    def has_definition_of(self, other: EditorDraft) -> bool:
        """Return whether a save of both drafts would store the same."""
        names = ("title", "description", *OBJECTS)
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def within_limit(self) -> EditorDraft:
        """Return the draft, without its tasks if they are more than a plan may have."""
        if len(self.tasks) <= MAX_TASKS:
            return self
        problem = Problem("plan.tasks", TOO_MANY, plan_edits.too_many_tasks())
        return replace(self, plan={"tasks": []}).with_problem(problem)

    def with_problem(self, problem: Problem) -> EditorDraft:
        return replace(self, problems=(*self.problems, problem))


def of_workflow(workflow: Workflow) -> EditorDraft:
    """Return the draft that changes a workflow."""
    return EditorDraft(
        title=workflow.title,
        name=workflow.name,
        description=workflow.description,
        workflow=str(workflow.pk),
        seen=seen_mark(workflow),
        plan=_plan(workflow.plan),
        policy=dict(workflow.policy or {}),
        inputs_schema=dict(workflow.inputs_schema or {}),
        default_inputs=dict(workflow.default_inputs or {}),
    )


def copy_of(workflow: Workflow) -> EditorDraft:
    """Return the draft of a new workflow with the definition of another one."""
    title = _("Copy of %(title)s") % {"title": workflow.title}
    return replace(
        of_workflow(workflow), title=free_title(title[:200]), name="", workflow="", seen=""
    )


def of_planner(draft: Draft) -> EditorDraft:
    """Return the draft of a plan that was made from words; it saves over the same workflow."""
    workflow = Workflow.objects.filter(pk=parse_natural_number(draft.workflow) or 0).first()
    opened = EditorDraft() if workflow is None else of_workflow(workflow)
    return replace(
        opened,
        seen=draft.seen or opened.seen,
        title=draft.title or opened.title or mask_secrets(draft.intent)[:200],
        description=opened.description or draft.intent,
        plan=draft.plan,
        policy=draft.policy,
        default_inputs=draft.inputs,
        warnings=draft.warnings,
        problems=draft.problems,
    ).within_limit()


def of_run(execution: Execution, plan: dict[str, Any], policy: dict[str, Any]) -> EditorDraft:
    """Return the draft of a new workflow with the plan and policy of a run, without its inputs."""
    workflow = execution.workflow
    title = execution.title or labels.run_title("", execution.pk)
    return EditorDraft(
        title=free_title(title[:200]),
        run=str(execution.pk),
        plan=plan,
        policy=policy,
        inputs_schema=dict(workflow.inputs_schema or {}) if workflow else {},
        default_inputs=dict(workflow.default_inputs or {}) if workflow else {},
    )


def _plan(value: Any) -> dict[str, Any]:
    return value if has_tasks(value) else {"tasks": []}


# --- the posted form ------------------------------------------------------------------------------


def posted(data: QueryDict) -> EditorDraft:
    """Return the draft that the page sent, with its fields applied."""
    draft = read(data.get("draft", "")).within_limit()
    number = parse_natural_number(data.get("selected", ""))
    selected = -1 if number is None or number >= len(draft.tasks) else number
    draft = replace(draft, selected=selected, **_texts(draft, data))
    draft = _with_task_fields(draft, data)
    draft = replace(draft, policy=switched_policy(draft.policy, data))
    draft = with_policy_fields(draft, data)
    return with_posted_inputs(draft, data)


def read(text: str) -> EditorDraft:
    """Return the draft of `as_json()`; an empty one for any other text."""
    try:
        value = parse(text, limits=DRAFT_LIMITS)
    except BoundedJSONError:
        value = {}
    value = value if isinstance(value, dict) else {}
    texts = {
        name: value[name][:longest] for name, longest in _TEXTS.items() if _is_text(value, name)
    }
    objects = {name: value[name] for name in OBJECTS if isinstance(value.get(name), dict)}
    return EditorDraft(**texts, **{**objects, "plan": _plan(objects.get("plan"))})


def _is_text(value: dict[str, Any], name: str) -> bool:
    return isinstance(value.get(name), str)


def _texts(draft: EditorDraft, data: QueryDict) -> dict[str, Any]:
    names = [name for name in ("title", "name", "description", "comment") if name in data]
    texts = {name: data.get(name, "").replace("\0", "").replace("\r\n", "\n") for name in names}
    # Spaces around a stored text stay until somebody changes the text.
    return {
        name: text.strip()[: _TEXTS[name]]
        for name, text in texts.items()
        if text.strip() != getattr(draft, name).strip()
    }


def _with_task_fields(draft: EditorDraft, data: QueryDict) -> EditorDraft:
    found = posted_plan(draft.plan, schemas_of(draft.plan), data)
    problems = tuple(Problem(each.path, "unreadable", each.message) for each in found.errors)
    typed = {**typed_texts(data, found.errors), **found.rejected}
    draft = replace(draft, plan=found.plan, problems=(*draft.problems, *problems), typed=typed)
    name = data.get(f"t{draft.selected}.name")
    if name is None or draft.selected < 0:
        return draft
    return _edited(draft, lambda: plan_edits.rename(draft.plan, draft.selected, name.strip()))


# --- operations -----------------------------------------------------------------------------------


def operated(draft: EditorDraft, action: str) -> EditorDraft:
    """Return the draft after an operation such as `remove:2`, `connect:0>1` or `add:server.tool`.

    An unknown operation changes nothing.
    """
    kind, _colon, about = action.partition(":")
    at = _number(about)
    source, _arrow, target = about.partition(">")
    plan = draft.plan
    if kind == "select":
        return replace(draft, selected=at if 0 <= at < len(draft.tasks) else -1)
    if kind == "remove":
        return _edited(draft, lambda: plan_edits.remove_task(plan, at))
    if kind in ("earlier", "later"):
        by = -1 if kind == "earlier" else 1
        return _edited(draft, lambda: plan_edits.move(plan, at, by))
    if kind == "connect":
        return _edited(draft, lambda: plan_edits.connect(plan, _number(source), _number(target)))
    if kind == "disconnect":
        ends = (_number(source), _number(target))
        edited = _edited(draft, lambda: plan_edits.disconnect(plan, *ends))
        # Why it is refused stands in the form of the task that reads the output.
        return replace(edited, selected=ends[1]) if edited.plan is plan else edited
    if kind == "browse":
        key, _arrow, source = about.partition(">")
        return replace(draft, browsed=key, browsed_source=source, focus="values-title")
    if kind in _IN_TASK_FORM:
        return _IN_TASK_FORM[kind](draft, about)
    if kind == "code" and about in _CODE:
        task = {"type": "code_execution", "language": about, "code": _CODE[about], "inputs": {}}
        return _edited(draft, lambda: plan_edits.add_task(plan, task, "code"))
    if kind in ("add", "use"):
        return _with_tool(draft, kind, about.strip())
    return draft


def _number(text: str) -> int:
    found = parse_natural_number(text)
    return -1 if found is None else found


def _edited(draft: EditorDraft, edit: Any) -> EditorDraft:
    try:
        edited: Edited = edit()
    except EditRefused as refused:
        return draft.with_problem(refused.problem)
    warnings = (*draft.warnings, *edited.warnings)
    return replace(draft, plan=edited.plan, selected=edited.selected, warnings=warnings)


def when_key(key: str) -> str:
    """Return the key of a task's condition; `key` is that of the task (`t2`)."""
    return f"{key}.when"


def _with_reference(draft: EditorDraft, about: str) -> EditorDraft:
    """Return the draft with a reference in an argument: `t1.a0>read_file>content`."""
    key, source, select = (*about.split(">", 2), "", "")[:3]
    at = draft.selected
    if not 0 <= at < len(draft.tasks):
        return draft
    if key == when_key(f"t{at}"):
        return replace(_with_condition(draft, source, select), focus=dom_id(key, "mode"))
    name = _argument_name(draft, key)
    if name is None:
        return draft
    value = {"$from": source, **({"select": select} if select else {})}
    draft = _edited(draft, lambda: plan_edits.set_argument(draft.plan, at, name, value))
    return replace(draft, focus=dom_id(key, "select"))


def _argument_name(draft: EditorDraft, key: str) -> str | None:
    """Return the argument of the selected task whose fields have this key (`t1.a0`)."""
    at = draft.selected
    arguments = arguments_of(draft.tasks[at], schemas_of(draft.plan).get(at), f"t{at}")
    return next((each.name for each in arguments if each.key == key), None)


def _with_input(draft: EditorDraft, name: str) -> EditorDraft:
    """Return the draft with another input of the selected task of code."""
    at, key = draft.selected, f"t{draft.selected}.new_input"
    if not _is_code(draft):
        return draft
    edited = _edited(draft, lambda: plan_edits.add_input(draft.plan, at, name.strip()))
    if edited.plan is draft.plan:
        return replace(edited, typed={**draft.typed, key: name}, focus=dom_id(key))
    place = len(values_of(edited.tasks[at])) - 1
    return replace(edited, focus=dom_id(f"t{at}.a{place}", "source"))


def _without_input(draft: EditorDraft, key: str) -> EditorDraft:
    """Return the draft without an input (`t1.a0`) of the selected task of code."""
    at = draft.selected
    name = _argument_name(draft, key) if _is_code(draft) else None
    if name is None:
        return draft
    edited = _edited(draft, lambda: plan_edits.remove_argument(draft.plan, at, name))
    return replace(edited, focus=dom_id(f"t{at}.new_input"))


def _is_code(draft: EditorDraft) -> bool:
    at = draft.selected
    return 0 <= at < len(draft.tasks) and draft.tasks[at].get("type") == "code_execution"


def _with_condition(draft: EditorDraft, source: str, select: str) -> EditorDraft:
    """Return the draft with one more condition of the selected task: that a value exists."""
    at, ids = draft.selected, [str(task.get("id")) for task in draft.tasks]
    if source in ids and source not in dependencies(draft.tasks[at]):
        plan, place = draft.plan, ids.index(source)
        draft = _edited(draft, lambda: plan_edits.connect(plan, place, at))
        if draft.plan is plan:
            return draft
    field = path_text((source,))
    if select:
        field += select if select.startswith("[") else f".{select}"
    old, new = draft.tasks[at].get("when"), f"{field} != `null`"
    tasks = list(draft.tasks)
    tasks[at] = {**tasks[at], "when": f"({old}) && {new}" if old else new}
    return replace(draft, plan={**draft.plan, "tasks": tasks}, browsed="")


def _with_tool(draft: EditorDraft, kind: str, name: str) -> EditorDraft:
    tool = known_tools([name]).get(name)
    if tool is None or not tool.enabled:
        message = _("there is no tool %(name)r that can be added") % {"name": name}
        return draft.with_problem(Problem("plan.tasks", "unknown_tool", message))
    task = new_task(tool)
    if kind == "add":
        wanted = name.rpartition(".")[2]
        return _edited(draft, lambda: plan_edits.add_task(draft.plan, task, wanted))
    schema = dict(tool.input_schema)
    return _edited(draft, lambda: plan_edits.set_target(draft.plan, draft.selected, task, schema))


_IN_TASK_FORM = {
    "pick": _with_reference,
    "add_input": _with_input,
    "remove_input": _without_input,
}
