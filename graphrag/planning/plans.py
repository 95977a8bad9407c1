"""Plans as JSON: task ids, dependencies, layers, cycles. Pure functions."""

import re
from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

PlanDict = dict[str, Any]
_NOT_TASKS = frozenset({"inputs", "context"})


class InvalidPlan(ValueError):
    """Raised for a malformed plan; the message says why."""


def tasks_of(plan: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tasks by id, in the order of the plan.

    :raises InvalidPlan: when there is no list of tasks, or an id is missing or duplicate.
    """
    tasks = plan.get("tasks")
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise InvalidPlan("the plan has no list of tasks")
    by_id: dict[str, dict[str, Any]] = {}
    for task in tasks:
        name = task.get("id")
        if not isinstance(name, str) or not name or name in by_id:
            raise InvalidPlan(f"the plan has a task without an id, or '{name}' twice")
        by_id[name] = task
    return by_id


def references(value: Any) -> Iterable[str]:
    """Yield the ids of the tasks that a value refers to by ``$from``, at any depth."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, Mapping):
            origin = item.get("$from")
            if isinstance(origin, str) and origin not in _NOT_TASKS:
                yield origin
            pending.extend(item.values())
        elif isinstance(item, list | tuple):
            pending.extend(item)


def depends_on(task: Mapping[str, Any]) -> list[str]:
    """Return the ids in a task's ``depends_on``; a draft may hold anything there."""
    listed = task.get("depends_on")
    return [str(name) for name in listed] if isinstance(listed, list | tuple) else []


def dependencies(task: Mapping[str, Any]) -> set[str]:
    """Return the tasks that a task depends on: ``depends_on`` and every ``$from``."""
    return {*depends_on(task), *references([task.get("arguments"), task.get("inputs")])}


def layers(plan: Mapping[str, Any]) -> list[list[str]]:
    """Return task ids layer by layer (Kahn's algorithm), in the plan's order within a layer.

    :raises InvalidPlan: on a cycle, or a dependency on an unknown task.
    """
    tasks = tasks_of(plan)
    graph = {name: dependencies(task) for name, task in tasks.items()}
    for name, needed in graph.items():
        unknown = needed - tasks.keys()
        if unknown:
            raise InvalidPlan(f"task '{name}' depends on '{min(unknown)}', which is not there")
    sorter = TopologicalSorter(graph)
    try:
        sorter.prepare()
    except CycleError as error:
        raise InvalidPlan(f"the tasks wait for each other: {' -> '.join(error.args[1])}") from error
    order = {name: at for at, name in enumerate(tasks)}
    result = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=order.__getitem__)
        result.append(ready)
        sorter.done(*ready)
    return result


def fresh_id(wanted: str, taken: Collection[str]) -> str:
    """Derive an unused task id from a tool's name: ``git_log``, ``git_log_2``."""
    stem = re.sub(r"[^A-Za-z0-9_]+", "_", wanted).strip("_")[:60] or "task"
    if stem in _NOT_TASKS:
        stem = f"{stem}_task"
    if stem not in taken:
        return stem
    at = 2
    while f"{stem}_{at}" in taken:
        at += 1
    return f"{stem}_{at}"


def tool_name(task: Mapping[str, Any]) -> str | None:
    """The catalogue's name of what a task runs; None for code."""
    if task.get("type") == "capability":
        return f"capability.{task.get('capability')}"
    name = task.get("tool")
    return name if isinstance(name, str) else None


def sinks(tasks: Mapping[str, Mapping[str, Any]], among: Collection[str]) -> list[str]:
    """Return the tasks of ``among`` on which no task of ``among`` depends, in the plan's order."""
    needed = {name for task in among for name in dependencies(tasks[task])}
    return [name for name in tasks if name in among and name not in needed]
