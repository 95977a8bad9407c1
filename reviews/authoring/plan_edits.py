"""Edits of a plan's JSON.  Pure: each returns a new plan, or raises EditRefused.

Tasks are named by their position in the plan.  An edit of a valid plan gives a valid plan; the
only exception is the removal of the last task, which leaves an empty plan.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from pydantic import TypeAdapter, ValidationError

from graphrag.planning.plans import InvalidPlan, depends_on, fresh_id, layers
from workflows.engine.plans.dag import MAX_TASKS, SOURCES, TaskId, is_reference, references
from workflows.engine.plans.validation import Problem

from .fields import values_name, values_of
from .input_rows import MAX_ROWS, name_problem

_TASK_ID: TypeAdapter[str] = TypeAdapter(TaskId)

#: The code of a plan with more tasks than a saved plan may have.
TOO_MANY = "too_many_tasks"


class EditRefused(Exception):
    """An edit that the plan does not allow; `problem` says why."""

    def __init__(self, path: str, code: str, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(path, code, message)


@dataclass(frozen=True, slots=True)
class Edited:
    """The plan after an edit, the position of the task to show, and what else changed."""

    plan: dict[str, Any]
    selected: int
    warnings: tuple[str, ...] = ()


def too_many_tasks() -> str:
    return _("a plan has at most %(n)s tasks") % {"n": f"{MAX_TASKS:,}"}


def add_task(plan: Mapping[str, Any], task: Mapping[str, Any], wanted: str) -> Edited:
    """Append `task` with a free id made from `wanted`."""
    tasks = _tasks(plan)
    if len(tasks) >= MAX_TASKS:
        raise EditRefused("plan.tasks", TOO_MANY, too_many_tasks())
    name = fresh_id(wanted, [str(each.get("id")) for each in tasks])
    return Edited({**plan, "tasks": [*tasks, {"id": name, **task}]}, len(tasks))


def remove_task(plan: Mapping[str, Any], at: int) -> Edited:
    """Remove a task and each reference to it; warn about arguments and conditions that read it."""
    tasks = _tasks(plan)
    gone = str(_task(tasks, at).get("id"))
    del tasks[at]
    warnings: list[str] = []
    for place, task in enumerate(tasks):
        values = values_of(task)
        kept = {key: value for key, value in values.items() if gone not in references(value)}
        for name in values.keys() - kept.keys():
            warnings.append(
                _("%(task)s.%(name)s has lost its source; enter a value.")
                % {"task": task.get("id"), "name": name}
            )
        if len(kept) < len(values):
            task = {**task, values_name(task): kept}
        tasks[place] = _with_needs(task, [name for name in depends_on(task) if name != gone])
        warnings += _condition_warnings(task, gone)
    return Edited({**plan, "tasks": tasks}, min(at, len(tasks) - 1), tuple(sorted(warnings)))


def connect(plan: Mapping[str, Any], source: int, target: int) -> Edited:
    """Make the task at `target` run after the task at `source`."""
    tasks = _tasks(plan)
    name, task = str(_task(tasks, source).get("id")), _task(tasks, target)
    if source == target:
        message = _("a task cannot run after itself")
        raise EditRefused(f"plan.tasks[{target}].depends_on", "cycle", message)
    if name not in depends_on(task):
        tasks[target] = _with_needs(task, [*depends_on(task), name])
    changed = {**plan, "tasks": tasks}
    _check_order(changed, target)
    return Edited(changed, target)


def disconnect(plan: Mapping[str, Any], source: int, target: int) -> Edited:
    """Let the task at `target` no longer wait for `source`, unless it reads its output."""
    tasks = _tasks(plan)
    name, task = str(_task(tasks, source).get("id")), _task(tasks, target)
    readers = sorted(key for key, value in values_of(task).items() if name in references(value))
    if readers:
        message = _("%(names)s of %(task)s reads the output of %(source)s; change it first") % {
            "names": ", ".join(readers),
            "task": task.get("id"),
            "source": name,
        }
        raise EditRefused(f"plan.tasks[{target}].depends_on", "is_read", message)
    tasks[target] = _with_needs(task, [each for each in depends_on(task) if each != name])
    return Edited({**plan, "tasks": tasks}, target, _condition_warnings(task, name))


def rename(plan: Mapping[str, Any], at: int, name: str) -> Edited:
    """Give a task another id, and change each reference to it."""
    tasks = _tasks(plan)
    old = str(_task(tasks, at).get("id"))
    if name == old:
        return Edited(dict(plan), at)
    _check_id(name, f"plan.tasks[{at}].id", [str(each.get("id")) for each in tasks])
    warnings: list[str] = []
    for place, task in enumerate(tasks):
        changed = {**task, "id": name} if place == at else task
        if old in references(values_of(task)):
            changed = {**changed, values_name(task): _renamed(values_of(task), old, name)}
        tasks[place] = _with_needs(
            changed, [name if each == old else each for each in depends_on(task)]
        )
        warnings += _condition_warnings(task, old)
    return Edited({**plan, "tasks": tasks}, at, tuple(warnings))


def set_target(plan: Mapping[str, Any], at: int, target: Mapping[str, Any], schema: Any) -> Edited:
    """Let a task run another tool or capability; arguments that the new one lacks are removed.

    `target` has `type` and `tool`, or `type` and `capability`; `schema` describes its arguments.
    """
    tasks = _tasks(plan)
    old = _task(tasks, at)
    parts = schema.get("properties") if isinstance(schema, dict) else None
    known = parts if isinstance(parts, dict) else {}
    values = {key: value for key, value in values_of(old).items() if key in known}
    lost = sorted(values_of(old).keys() - values.keys())
    # The permission set and the runner belong to the old target; the review stays.
    dropped = {"type", "tool", "capability", "arguments", "inputs", "code", "language"}
    dropped |= {"permission_set", "runner"}
    kept = {key: value for key, value in old.items() if key not in dropped}
    task = {**kept, **target}
    task[values_name(task)] = values
    tasks[at] = task
    warnings = (
        _("Removed from %(task)s: %(names)s.") % {"task": old.get("id"), "names": ", ".join(lost)},
    )
    return Edited({**plan, "tasks": tasks}, at, warnings if lost else ())


def move(plan: Mapping[str, Any], at: int, by: int) -> Edited:
    """Move a task earlier or later in the order of the plan; layers keep this order."""
    tasks = _tasks(plan)
    _task(tasks, at)
    to = min(max(at + by, 0), len(tasks) - 1)
    tasks.insert(to, tasks.pop(at))
    return Edited({**plan, "tasks": tasks}, to)


def set_argument(plan: Mapping[str, Any], at: int, name: str, value: Any) -> Edited:
    """Set one argument to a literal or a reference."""
    tasks = _tasks(plan)
    task = _task(tasks, at)
    tasks[at] = {**task, values_name(task): {**values_of(task), name: value}}
    changed = {**plan, "tasks": tasks}
    _check_order(changed, at)
    return Edited(changed, at)


def add_input(plan: Mapping[str, Any], at: int, name: str) -> Edited:
    """Give a task of code another input, which is an empty text until somebody sets it."""
    tasks = _tasks(plan)
    task = _task(tasks, at)
    values = values_of(task)
    if problem := _input_problem(name, values):
        raise EditRefused(f"plan.tasks[{at}].new_input", "refused", problem)
    tasks[at] = {**task, values_name(task): {**values, name: ""}}
    return Edited({**plan, "tasks": tasks}, at)


def _input_problem(name: str, values: Mapping[str, Any]) -> str:
    if len(values) >= MAX_ROWS:
        return _("a task has at most %(n)s inputs here") % {"n": MAX_ROWS}
    if name == "inputs":
        return _("the code reads all inputs by this name; choose another one")
    return name_problem(name, values)


def remove_argument(plan: Mapping[str, Any], at: int, name: str) -> Edited:
    """Remove one argument of a task; the task still runs after the tasks in `depends_on`."""
    tasks = _tasks(plan)
    task = _task(tasks, at)
    values = {key: value for key, value in values_of(task).items() if key != name}
    tasks[at] = {**task, values_name(task): values}
    return Edited({**plan, "tasks": tasks}, at)


# --- helpers --------------------------------------------------------------------------------------


def _tasks(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [dict(task) for task in plan.get("tasks", ())]


def _task(tasks: list[dict[str, Any]], at: int) -> dict[str, Any]:
    if not 0 <= at < len(tasks):
        raise EditRefused("plan.tasks", "no_task", _("there is no such task any more"))
    return tasks[at]


def _with_needs(task: dict[str, Any], needs: list[str]) -> dict[str, Any]:
    if needs == depends_on(task):
        return task
    rest = {key: value for key, value in task.items() if key != "depends_on"}
    return {**rest, "depends_on": needs} if needs else rest


def _check_order(plan: Mapping[str, Any], at: int) -> None:
    """Refuse tasks that wait for each other."""
    try:
        layers(plan)
    except InvalidPlan as invalid:
        raise EditRefused(f"plan.tasks[{at}].depends_on", "cycle", str(invalid)) from invalid


def _check_id(name: str, path: str, taken: Collection[str]) -> None:
    if name in taken:
        raise EditRefused(
            path, "duplicate_id", _("the id %(name)r is used already") % {"name": name}
        )
    if name in SOURCES:
        raise EditRefused(path, "reserved_id", _("%(name)r is a reserved name") % {"name": name})
    try:
        _TASK_ID.validate_python(name)
    except ValidationError:
        message = _(
            "an id starts with a letter and has up to 64 letters, digits, dots, dashes and "
            "underscores"
        )
        raise EditRefused(path, "bad_id", message) from None


def _renamed(value: Any, old: str, new: str) -> Any:
    if is_reference(value):
        return {**value, "$from": new} if value["$from"] == old else value
    if isinstance(value, dict):
        return {key: _renamed(item, old, new) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_renamed(item, old, new) for item in value]
    return value


def _condition_warnings(task: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return a warning if the condition of the task mentions another task by name."""
    condition = task.get("when")
    if not isinstance(condition, str):
        return ()
    if not re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", condition):
        return ()
    return (
        _("The condition of %(task)s mentions %(name)s; check it.")
        % {"task": task.get("id"), "name": name},
    )
