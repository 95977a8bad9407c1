"""Contexts of the plan editor."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from graphrag.catalogue.selectors import tools as all_tools
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.models import Tool
from graphrag.planning.plans import InvalidPlan, dependencies, layers
from graphrag.retrieval.search import search
from reviews.components.dag_svg import DagTask, Picture, layout
from reviews.components.number_formatting import number_text
from reviews.components.plan_diff import short
from workflows.common.number_parsing import parse_natural_number
from workflows.engine.plans.dag import SOURCES
from workflows.engine.plans.validation import Problem
from workflows.engine.policy.permissions import NAMED
from workflows.engine.values.expressions import Budget, expression_error
from workflows.executions.definitions import WorkflowChanged
from workflows.models import Execution, Workflow
from workflows.planning.planner import known_tools
from workflows.remote.registry import configured_runners
from workflows.tools import registry

from .argument_forms import argument_fields
from .editor_draft import EditorDraft, when_key
from .editor_inputs import examples_of
from .fields import Argument, asked_inputs
from .input_form import input_path, inputs_context
from .input_references import tasks_that_read
from .pages import conflict_context, policy_switches, target_of, task_context, tool_url
from .planner_draft import pretty, schemas_of
from .rights import may_save
from .run_values import (
    RunValues,
    browsed,
    described_output,
    last_run,
    run_values,
    tried_condition,
    tried_select,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_MAX_NOTE_LENGTH = 18
#: The maximum number of boxes of one layer; the list below the picture has every task.
_MAX_ROWS = 40
_OFFERED = 8
#: Fields that only the form of code has.
_OF_CODE = frozenset({"code", "new_input"})
#: The path of a problem in a task of the plan, or in a field of its form.
_OF_TASK = re.compile(r"plan\.tasks\[([0-9]{1,9})\](?=[.\[]|$)|t([0-9]{1,9})\.")
#: Field of the task form → the part of a problem's path that belongs to it.
_SLOTS = {
    "name": "id",
    "title": "title",
    "code": "code",
    "new_input": "new_input",
    "when": "when",
    "timeout": "timeout_seconds",
    "attempts": "retry.max_attempts",
    "backoff": "retry.backoff_seconds",
    "needs": "depends_on",
    "permission_set": "permission_set",
    "runner": "runner",
}


def editor_context(
    user: User,
    draft: EditorDraft,
    checked: tuple[Problem, ...],
    conflict: WorkflowChanged | None = None,
    versions_page: str = "reviews:workflow_versions",
) -> dict[str, Any]:
    """Return `e` of the template; `checked` are the problems found by validation.

    `versions_page` is the URL name of the page of a workflow's versions.
    """
    problems = (*draft.problems, *(each for each in checked if each not in draft.problems))
    schemas = schemas_of(draft.plan)
    faulty = _faults_by_task(problems, len(draft.tasks))
    open_faults = faulty[draft.selected] if 0 <= draft.selected < len(faulty) else []
    return {
        "draft": draft,
        "draft_json": draft.as_json(),
        "workflow": _workflow(draft),
        "may_save": may_save(user),
        "conflict": conflict_context(conflict, versions_page) if conflict else None,
        "picture": _picture(draft, faulty),
        "tasks": tuple(_row(draft, at, faulty[at]) for at in range(len(draft.tasks))),
        "task": _with_values(user, draft, _task_form(draft, schemas, open_faults)),
        "problems": tuple(_listed(problems, draft)),
        "title_errors": [each.message for each in problems if each.path == "title"],
        "import_errors": [each.message for each in problems if each.path == "import"],
        "missing": tuple(_missing(draft, schemas)),
        "inputs": _inputs(draft, problems),
        "inputs_schema_text": _json_text(draft, "inputs_schema"),
        "default_inputs_text": _json_text(draft, "default_inputs"),
        "tools": offered_tools(""),
        "focus": _focus(draft),
        **policy_switches(draft.policy),
    }


def _inputs(draft: EditorDraft, problems: Iterable[Problem]) -> dict[str, Any]:
    return inputs_context(
        draft.inputs_schema,
        examples_of(draft),
        draft.default_inputs,
        problems,
        draft.typed,
        lambda name: tasks_that_read(draft.plan, name),
    )


def _faults_by_task(problems: Iterable[Problem], tasks: int) -> list[list[Problem]]:
    faulty: list[list[Problem]] = [[] for _task in range(tasks)]
    for each in problems:
        at = _task_of(each)
        if at is not None and at < tasks:
            faulty[at].append(each)
    return faulty


def _task_of(problem: Problem) -> int | None:
    """Return the position of the task that a problem is about."""
    found = _OF_TASK.match(problem.path)
    return int(found[1] or found[2]) if found else None


def _focus(draft: EditorDraft) -> str:
    if draft.focus:
        return draft.focus
    return "task-title" if 0 <= draft.selected < len(draft.tasks) else "editor-title"


def _workflow(draft: EditorDraft) -> dict[str, str] | None:
    found = Workflow.objects.filter(pk=parse_natural_number(draft.workflow) or 0).first()
    if found is None:
        return None
    return {"title": found.title, "url": reverse("reviews:workflow", args=(found.pk,))}


def _listed(problems: Iterable[Problem], draft: EditorDraft) -> Iterable[dict[str, Any]]:
    """Yield every problem with the name of its task instead of its position."""
    for each in problems:
        at = _task_of(each)
        if at is None or at >= len(draft.tasks):
            yield {
                "path": input_path(draft.inputs_schema, each.path),
                "message": each.message,
                "at": None,
            }
            continue
        name = str(draft.tasks[at].get("id", ""))
        rest = each.path.removeprefix(f"plan.tasks[{at}]").lstrip(".")
        rest = "" if rest.startswith(f"t{at}.") else rest
        yield {"path": f"{name}.{rest}" if rest else name, "message": each.message, "at": at}


def _missing(draft: EditorDraft, schemas: dict[int, Any]) -> Iterable[dict[str, Any]]:
    """Yield the inputs that the plan reads and that neither schema nor example values name."""
    parts = draft.inputs_schema.get("properties")
    known = {*draft.default_inputs, *(parts if isinstance(parts, dict) else ())}
    for name, about in asked_inputs(draft.plan, schemas).items():
        if name not in known:
            yield {"name": name, "task": about["task"]}


def _json_text(draft: EditorDraft, name: str) -> str:
    typed = draft.typed.get(f"{name}_text")
    if typed is not None:
        return typed
    value = getattr(draft, name)
    return pretty(value) if value else ""


# --- the picture and the list ---------------------------------------------------------------------


def _picture(draft: EditorDraft, faulty: list[list[Problem]]) -> dict[str, Any] | None:
    """Return the diagram with what a node needs to be edited; None if it cannot be drawn."""
    tasks = draft.tasks
    try:
        columns = layers(draft.plan)
    except InvalidPlan:
        return None
    places = {str(task["id"]): at for at, task in enumerate(tasks)}
    picture = layout(
        [[_dag_task(tasks[places[name]]) for name in column] for column in columns],
        max_rows=_MAX_ROWS,
    )
    layer_of = {name: number for number, column in enumerate(columns, 1) for name in column}
    return {
        "picture": picture,
        "nodes": tuple(_nodes(draft, picture, places, layer_of, faulty)),
        "edges": tuple(_edges(picture, places)),
    }


def _dag_task(task: dict[str, Any]) -> DagTask:
    needs = tuple(sorted(dependencies(task)))
    return DagTask(str(task["id"]), "", needs, short(target_of(task), _MAX_NOTE_LENGTH))


def _nodes(
    draft: EditorDraft,
    picture: Picture,
    places: dict[str, int],
    layer_of: dict[str, int],
    faulty: list[list[Problem]],
) -> Iterable[dict[str, Any]]:
    """Yield the nodes in the order of the layers; exactly one is in the tab order."""
    stop = draft.selected if draft.selected in places.values() else None
    for number, node in enumerate(picture.nodes):
        at = places.get(node.id)
        if at is None:
            yield {"node": node, "at": None}
            continue
        yield {
            "node": node,
            "at": at,
            "selected": at == draft.selected,
            "in_tab_order": at == stop if stop is not None else number == 0,
            "faulty": bool(faulty[at]),
            "label": _label(draft.tasks[at], layer_of[node.id], len(faulty[at])),
        }


def _edges(picture: Picture, places: dict[str, int]) -> Iterable[dict[str, Any]]:
    """Yield the edges; one edge between two drawn tasks is in the tab order."""
    first = True
    for edge in picture.edges:
        source, target = places.get(edge.source), places.get(edge.target)
        if source is None or target is None:
            yield {"path": edge.path, "at": None}
            continue
        names = {"source": edge.source, "target": edge.target}
        label = _("Connection from %(source)s to %(target)s") % names
        at = f"{source}>{target}"
        yield {"path": edge.path, "at": at, "label": label, "in_tab_order": first}
        first = False


def _label(task: dict[str, Any], layer: int, faults: int) -> str:
    parts = [
        _("%(task)s, runs %(target)s, layer %(layer)s")
        % {"task": task["id"], "target": target_of(task), "layer": layer}
    ]
    needs = sorted(dependencies(task))
    if needs:
        parts.append(_("after %(names)s") % {"names": ", ".join(needs)})
    if faults:
        parts.append(ngettext("%(n)s error", "%(n)s errors", faults) % {"n": faults})
    return ", ".join(parts)


def _row(draft: EditorDraft, at: int, faults: list[Problem]) -> dict[str, Any]:
    task = draft.tasks[at]
    return {
        "at": at,
        "id": str(task.get("id", "")),
        "target": target_of(task),
        "selected": at == draft.selected,
        "faults": len(faults),
        "is_first": at == 0,
        "is_last": at == len(draft.tasks) - 1,
    }


# --- the form of one task -------------------------------------------------------------------------


def _task_form(
    draft: EditorDraft, schemas: dict[int, Any], faults: list[Problem]
) -> dict[str, Any] | None:
    at = draft.selected
    if not 0 <= at < len(draft.tasks):
        return None
    task = draft.tasks[at]
    ids = [str(each.get("id", "")) for each in draft.tasks]
    about = known_tools([str(task.get("tool") or f"capability.{task.get('capability')}")])
    form = {
        **task_context(at, task, ids, schemas.get(at), about),
        "is_code": task.get("type") == "code_execution",
        "runners": _runners(task),
    }
    key = form["key"]
    slots, rest = _slots(form, faults, f"plan.tasks[{at}]")
    written = task.get("retry")
    retry = written if isinstance(written, dict) else {}
    settings = {
        "timeout": number_text(task.get("timeout_seconds")),
        "attempts": number_text(retry.get("max_attempts")),
        "backoff": number_text(retry.get("backoff_seconds")),
    }
    behind = _descendants(draft.tasks, ids[at])
    return {
        **form,
        "sources": [each for each in form["sources"] if each not in behind],
        "needs": [each for each in form["needs"] if each["chosen"] or each["id"] not in behind],
        "tool_url": tool_url(form["target"]) if task.get("type") == "tool" else "",
        "type": task.get("type"),
        "title": task.get("title", ""),
        "language": task.get("language", ""),
        "languages": tuple(
            {"value": each, "chosen": each == task.get("language")}
            for each in ("python", "typescript", "javascript")
        ),
        "when": task.get("when") or "",
        "permission_sets": _permission_sets(str(task.get("permission_set") or "")),
        **{name: draft.typed.get(f"{key}.{name}", text) for name, text in settings.items()},
        "arguments": tuple(_with_fields(each, draft.typed) for each in form["arguments"]),
        "new_input": draft.typed.get(f"{key}.new_input", ""),
        "targets": _targets(draft, at, ids),
        "faults": tuple(rest),
        "slots": slots,
    }


def _with_fields(argument: Argument, typed: Mapping[str, str]) -> Argument:
    """Return an argument with what was typed, and with nested fields where its schema has any."""
    key = argument.key
    return replace(
        argument,
        text=typed.get(f"{key}.text", argument.text),
        was=argument.text,
        fields=argument_fields(key, argument.name, argument.schema, argument.value, typed),
    )


def _permission_sets(chosen: str) -> tuple[dict[str, Any], ...]:
    """Return the options of a task's permission set; an unknown name stays an option."""
    names = dict.fromkeys((*NAMED, *([chosen] if chosen else ())))
    return tuple({"value": name, "chosen": name == chosen} for name in names)


def _runners(task: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return the options of a task's remote runner; none for a tool that only workers run.

    A runner that the task names already stays an option, so that it can be removed.
    """
    tool = registry.get(str(task.get("tool")))
    chosen = str(task.get("runner") or "")
    names = [*configured_runners()] if tool is not None and tool.remote else []
    names += [chosen] if chosen and chosen not in names else []
    return tuple({"value": name, "chosen": name == chosen} for name in names)


def _with_values(
    user: User, draft: EditorDraft, form: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Add the results of the task's expressions over the last run, and the open value browser."""
    if form is None:
        return None
    task = draft.tasks[draft.selected]
    arguments = form["arguments"]
    # What has a value browser: each argument, and the condition, which reads no single source.
    browsers = {**{each.key: each.source for each in arguments}, when_key(form["key"]): ""}
    is_open = draft.browsed in browsers
    sources = [each.source for each in arguments if each.source]
    chosen = ""
    if is_open:
        chosen = draft.browsed_source or browsers[draft.browsed] or _first(form["sources"])
        sources.append(chosen)
    if form["when"]:
        sources += [*SOURCES, *dependencies(task)]
    run = last_run(user, draft) if sources else None
    values = run_values(run, {*sources}) if run else None
    return {
        **form,
        "tried": _tried(task, form, values),
        "browsed": _browser(draft, form, draft.browsed, chosen, values) if is_open else None,
    }


def _first(sources: list[str]) -> str:
    """Return the source that a value browser opens with."""
    return sources[-1] if sources else "inputs"


def _tried(task: dict[str, Any], form: dict[str, Any], values: RunValues | None) -> dict[str, Any]:
    """Return the result of each expression of a task by the key of its field, or None."""
    budget = Budget()
    tried: dict[str, Any] = {each.key: None for each in form["arguments"]}
    tried[f"{form['key']}.when"] = None
    if values is None:
        return tried
    for each in form["arguments"]:
        if each.source and not (each.select and expression_error(each.select)):
            tried[each.key] = tried_select(values, each.source, each.select, budget)
    if form["when"] and not expression_error(form["when"]):
        tried[f"{form['key']}.when"] = tried_condition(values, form["when"], dependencies(task))
    return tried


def _browser(
    draft: EditorDraft, form: dict[str, Any], key: str, source: str, values: RunValues | None
) -> dict[str, Any]:
    """Return the value browser of an argument or a condition, with the values of one source."""
    known = values is not None and source in values.by_source
    task = next((each for each in draft.tasks if each.get("id") == source), None)
    return {
        "key": key,
        "is_condition": key == when_key(form["key"]),
        "source": source,
        "sources": [
            {"id": each, "chosen": each == source}
            for each in (*form["sources"], "inputs", "context")
        ],
        "run": run_context(values.execution) if values else None,
        "is_known": known,
        "tree": browsed(values.by_source[source]) if values and known else (),
        "described": described_output(task) if task and not known else (),
    }


def run_context(execution: Execution) -> dict[str, Any]:
    return {
        "id": execution.pk,
        "at": execution.created_at,
        "url": reverse("reviews:run", args=(execution.pk,)),
    }


def _targets(draft: EditorDraft, at: int, ids: list[str]) -> list[dict[str, Any]]:
    """Return the tasks that can still be connected to run after the selected one."""
    name = ids[at]
    needs = {each: dependencies(task) for each, task in zip(ids, draft.tasks, strict=True)}
    ancestors = _reachable(name, needs)
    return [
        {"id": each, "at": place}
        for place, each in enumerate(ids)
        if place != at and name not in needs[each] and each not in ancestors
    ]


def _descendants(tasks: Iterable[dict[str, Any]], name: str) -> set[str]:
    """Return the ids of the tasks that wait for a task, directly or not."""
    readers: dict[str, set[str]] = {}
    for task in tasks:
        for need in dependencies(task):
            readers.setdefault(need, set()).add(str(task.get("id", "")))
    return _reachable(name, readers)


def _reachable(start: str, edges: Mapping[str, Collection[str]]) -> set[str]:
    """Return the nodes that edges lead to from `start`, without `start`."""
    found, pending = {start}, [start]
    while pending:
        for each in edges.get(pending.pop(), ()):
            if each not in found:
                found.add(each)
                pending.append(each)
    return found - {start}


def _slots(
    form: dict[str, Any], faults: list[Problem], prefix: str
) -> tuple[dict[str, list[str]], list[Problem]]:
    """Sort the problems of a task by the key of their field; the rest stays at the task."""
    key = form["key"]
    missing = {*(() if form["is_code"] else _OF_CODE), *(() if form["runners"] else ("runner",))}
    names = [name for name in _SLOTS if name not in missing]
    slots: dict[str, list[str]] = {f"{key}.{name}": [] for name in names}
    slots |= {each.key: [] for each in form["arguments"]}
    rest = []
    for fault in faults:
        place = _slot_of(form, fault.path, prefix)
        if place in slots:
            slots[place].append(_inside(fault, form, place) + fault.message)
        else:
            rest.append(fault)
    return slots, rest


def _inside(fault: Problem, form: dict[str, Any], slot: str) -> str:
    """Return where inside its argument a problem is, as in `items[0].price: `."""
    name = next((each.name for each in form["arguments"] if each.key == slot), None)
    values = fault.path.partition("].")[2].partition(".")[2]
    if name is None or not values.startswith((f"{name}.", f"{name}[")):
        return ""
    return f"{values}: "


def _slot_of(form: dict[str, Any], path: str, prefix: str) -> str:
    key = form["key"]
    if path.startswith(f"{key}."):
        return path.removesuffix(".text").removesuffix("/")
    inside = path.removeprefix(prefix).lstrip(".")
    for name, part in _SLOTS.items():
        if inside == part or inside.startswith((f"{part}.", f"{part}[")):
            return f"{key}.{name}"
    values = inside.partition(".")[2]
    for each in form["arguments"]:
        if values == each.name or values.startswith((f"{each.name}.", f"{each.name}[")):
            return str(each.key)
    return ""


# --- tools ----------------------------------------------------------------------------------------


def offered_tools(query: str) -> tuple[dict[str, str], ...]:
    """Return the enabled tools that fit the query; without one the most used tools."""
    rows: Iterable[Tool | ToolRecord]
    if query:
        rows = [found.tool for found in search(query, limit=_OFFERED).found]
    else:
        rows = all_tools().filter(enabled=True).order_by("-pagerank", "name")[:_OFFERED]
    return tuple(_offer(tool) for tool in rows)


def _offer(tool: Tool | ToolRecord) -> dict[str, str]:
    if tool.can_destroy:
        risk, look = _("can destroy data"), "bad"
    elif _goes_beyond_reading(tool.permission_set):
        risk, look = _("can modify data"), "waiting"
    else:
        risk, look = _("reads only"), "good"
    return {
        "name": tool.name,
        "description": tool.description.split("\n")[0][:160],
        "permission_set": tool.permission_set,
        "risk": risk,
        "look": look,
    }


def _goes_beyond_reading(permission_set: str) -> bool:
    known = NAMED.get(permission_set)
    return known is None or known.is_beyond_reading
