"""Values of a workflow's last run in the plan editor: browsed, and given to expressions.

All values are masked before an expression reads them, so that no expression can ask for a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import Exists, OuterRef
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from reviews.audit.reveals import task_views
from reviews.decisions.edits import inputs_schema, secret_rules
from reviews.decisions.masking import is_marked, masked
from workflows.common.number_parsing import parse_natural_number
from workflows.engine.plans.dag import SOURCES
from workflows.engine.plans.dataflow import condition_holds
from workflows.engine.plans.task_errors import TaskFailed
from workflows.engine.protocol.status import TaskStatus
from workflows.engine.values.expressions import Budget, ExpressionError, evaluate
from workflows.executions.access import visible_to
from workflows.executions.selectors import tasks_of
from workflows.models import Execution, TaskAttempt
from workflows.permissions import capabilities
from workflows.planning.planner import known_tools

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from .editor_draft import EditorDraft

#: Bounds of the value browser.
_MAX_VALUES = 200
_MAX_ENTRIES = 50
_MAX_ITEMS = 5
_MAX_DEPTH = 6
_SHORT = 60
_RESULT = 200
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class RunValues:
    """The values of one run by source: `inputs`, `context` and the ids of tasks with an output."""

    execution: Execution
    by_source: Mapping[str, Any]


@dataclass(slots=True)
class Value:
    """An entry of the value browser; `path` is the expression that selects it, or None."""

    label: str
    path: str | None
    text: str
    children: tuple[Value, ...] = ()


def last_run(user: User, draft: EditorDraft) -> Execution | None:
    """Return the run that the draft was made from, or the last run of its workflow with an output.

    Returns only a run that the user may see.
    """
    rows = visible_to(user).select_related("workflow")
    if number := parse_natural_number(draft.run):
        return rows.filter(pk=number).first()
    if not (number := parse_natural_number(draft.workflow)):
        return None
    done = TaskAttempt.objects.filter(
        execution=OuterRef("pk"), settled=True, status=TaskStatus.SUCCEEDED
    )
    return rows.filter(Exists(done), workflow_id=number).order_by("-pk").first()


def run_values(execution: Execution, sources: Collection[str]) -> RunValues:
    """Return the masked values of these sources in a run."""
    found: dict[str, Any] = {}
    for name, schema in (("inputs", inputs_schema(execution)), ("context", None)):
        if name in sources:
            value = getattr(execution, name)
            found[name] = masked(value, secret_rules(execution, schema)).value
    names = [name for name in sources if name not in SOURCES]
    tasks = [task for task in tasks_of(execution, names=names) if _has_output(task.status)]
    views = task_views(execution, tasks)
    found |= {task.id: views[task.id, "output"].value for task in tasks}
    return RunValues(execution, found)


def _has_output(status: str) -> bool:
    return status == TaskStatus.SUCCEEDED


# --- expressions ----------------------------------------------------------------------------------


def tried_select(values: RunValues, source: str, select: str, budget: Budget) -> dict[str, Any]:
    """Return the result of a reference over the run, or its error."""
    if source not in values.by_source:
        return _no_output(values, source)
    try:
        found = values.by_source[source]
        found = evaluate(select, found, budget) if select else found
    except ExpressionError as error:
        return {"run": values.execution.pk, "error": str(error)}
    return {"run": values.execution.pk, "text": json_text(found), "is_null": found is None}


def tried_condition(values: RunValues, condition: str, needs: Collection[str]) -> dict[str, Any]:
    """Return whether a task with these needs would run in the run, or its condition's error."""
    known = {*SOURCES, *needs}
    sources = {name: value for name, value in values.by_source.items() if name in known}
    try:
        holds = condition_holds(condition, sources, Budget())
    except TaskFailed as failed:
        return {"run": values.execution.pk, "error": str(failed.__cause__ or failed)}
    text = _("true: the task runs") if holds else _("false: the task is skipped")
    return {"run": values.execution.pk, "text": text}


def _no_output(values: RunValues, source: str) -> dict[str, Any]:
    text = _("%(task)s has no output in this run") % {"task": source}
    return {"run": values.execution.pk, "text": text}


def json_text(value: Any) -> str:
    """Return a value as JSON, shortened."""
    return _shortened(json.dumps(value, ensure_ascii=False), _RESULT)


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


# --- the value browser ----------------------------------------------------------------------------


def browsed(value: Any) -> tuple[Value, ...]:
    """Return the tree of a value, the whole value first.  At most _MAX_VALUES entries."""
    left = [_MAX_VALUES]
    whole = Value(_("the whole value"), "", _short(value))
    return (whole, *_children(value, "", 1, left))


def _children(value: Any, path: str, depth: int, left: list[int]) -> Iterator[Value]:
    if isinstance(value, dict):
        entries = list(value.items())
        for key, item in entries[:_MAX_ENTRIES]:
            yield from _entry(key, _joined(path, key), item, depth, left)
        yield from _rest(len(entries) - _MAX_ENTRIES)
    elif isinstance(value, list):
        if value and isinstance(value[0], dict):
            every = tuple(_every_item(value[0], path))
            yield Value(_("each item"), f"{path}[*]", _short(value), every)
        for number, item in enumerate(value[:_MAX_ITEMS]):
            yield from _entry(f"[{number}]", f"{path}[{number}]", item, depth, left)
        yield from _rest(len(value) - _MAX_ITEMS)


def _entry(label: str, path: str | None, item: Any, depth: int, left: list[int]) -> Iterator[Value]:
    left[0] -= 1
    if left[0] < 0:
        return
    inside: tuple[Value, ...] = ()
    if depth < _MAX_DEPTH and path is not None:
        inside = tuple(_children(item, path, depth + 1, left))
    yield Value(_shortened(label, _SHORT), path, _short(item), inside)


def _every_item(first: dict[str, Any], path: str) -> Iterator[Value]:
    for key in list(first)[:_MAX_ENTRIES]:
        each = _joined("", key)
        if each is not None:
            yield Value(_shortened(key, _SHORT), f"{path}[*].{each}", _("a list"))


def _rest(count: int) -> Iterator[Value]:
    if count > 0:
        yield Value(ngettext("%(n)s more", "%(n)s more", count) % {"n": count}, None, "")


def _joined(path: str, key: str) -> str | None:
    """Return the path of a key; None for a masked key, which the real value does not have."""
    if is_marked(key):
        return None
    name = key if _IDENTIFIER.fullmatch(key) else json.dumps(key)
    return f"{path}.{name}" if path else name


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ngettext("%(n)s key", "%(n)s keys", len(value)) % {"n": len(value)}
    if isinstance(value, list):
        return ngettext("%(n)s item", "%(n)s items", len(value)) % {"n": len(value)}
    return _shortened(json.dumps(value, ensure_ascii=False), _SHORT)


def described_output(task: Mapping[str, Any]) -> tuple[Value, ...]:
    """Return the tree of the output schema of a task's tool or capability; empty without one."""
    name = str(task.get("tool") or task.get("capability") or "")
    known: Any = (
        known_tools([name]).get(name)
        if task.get("type") == "tool"
        else capabilities.load([name]).get(name)
    )
    schema = known.output_schema if known is not None else None
    if not isinstance(schema, dict) or not schema:
        return ()
    return tuple(_described(schema, "", 1, [_MAX_VALUES]))


def _described(schema: Any, path: str, depth: int, left: list[int]) -> Iterator[Value]:
    parts = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(parts, dict) or depth > _MAX_DEPTH:
        return
    for key, part in list(parts.items())[:_MAX_ENTRIES]:
        left[0] -= 1
        place = _joined(path, key)
        if left[0] < 0 or place is None:
            return
        kind = part.get("type", "") if isinstance(part, dict) else ""
        text = ", ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
        inside = tuple(_described(part, place, depth + 1, left))
        yield Value(_shortened(key, _SHORT), place, _shortened(text, _SHORT), inside)
