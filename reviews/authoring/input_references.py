"""References of a plan's tasks to the inputs of the run: find them, and rename them.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.translation import gettext as _

from workflows.engine.plans.dag import is_reference
from workflows.engine.values.expressions import names_in

from .fields import values_name, values_of


def tasks_that_read(plan: Mapping[str, Any], name: str) -> list[str]:
    """Return the ids of the tasks whose arguments or condition read an input of the run."""
    return [str(task.get("id", "")) for task in _tasks(plan) if _reads(task, name)]


def _reads(task: Mapping[str, Any], name: str) -> bool:
    condition = task.get("when")
    found = names_in(condition) if isinstance(condition, str) else ()
    if any(each.text == name and each.field_of == "inputs" for each in found):
        return True
    return any(
        each.text == name and not each.field_of
        for value in _input_references(values_of(task))
        for each in names_in(str(value.get("select", "")))
    )


def _input_references(value: Any) -> Iterator[Mapping[str, Any]]:
    if is_reference(value):
        if value["$from"] == "inputs":
            yield value
        return
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list | tuple):
            yield from _input_references(item)


def rename_input(
    plan: Mapping[str, Any], old: str, new: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the plan with another name of an input, and a warning per reference left to people."""
    tasks, warnings = [], []
    for task in _tasks(plan):
        values = values_of(task)
        changed = dict(task)
        if any(True for _each in _input_references(values)):
            changed[values_name(task)] = _renamed(values, old, new)
        condition = task.get("when")
        if isinstance(condition, str):
            changed["when"] = _replaced(condition, old, new, field_of="inputs")
        if _reads(changed, old):
            warnings.append(
                _("%(task)s still reads the input %(old)s in an expression; change it to %(new)s.")
                % {"task": task.get("id"), "old": old, "new": new}
            )
        tasks.append(changed)
    return {**plan, "tasks": tasks}, tuple(warnings)


def _renamed(value: Any, old: str, new: str) -> Any:
    if is_reference(value):
        select = value.get("select")
        if value["$from"] != "inputs" or not isinstance(select, str):
            return value
        return {**value, "select": _replaced(select, old, new, field_of="")}
    if isinstance(value, dict):
        return {key: _renamed(item, old, new) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_renamed(item, old, new) for item in value]
    return value


def _replaced(expression: str, old: str, new: str, *, field_of: str) -> str:
    for each in reversed(names_in(expression)):
        if each.is_root and each.text == old and each.field_of == field_of:
            expression = f"{expression[: each.start]}{new}{expression[each.end :]}"
    return expression


def _tasks(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [task for task in plan.get("tasks", ()) if isinstance(task, dict)]
