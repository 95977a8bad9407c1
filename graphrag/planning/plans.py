"""Plans as they are written everywhere: ids, dependencies, layers, cycles. Pure."""

import re
from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

PlanDict = dict[str, Any]
_NOT_TASKS = frozenset({"inputs", "context"})


class PlanRefused(ValueError):
    """A plan that cannot be worked with; the text says why."""


def tasks_of(plan: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Tasks by id, in their order.

    :raises PlanRefused: when there is no list of tasks, or an id is missing or there twice.
    """
    tasks = plan.get("tasks")
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise PlanRefused("the plan has no list of tasks")
    by_id: dict[str, dict[str, Any]] = {}
    for task in tasks:
        name = task.get("id")
        if not isinstance(name, str) or not name or name in by_id:
            raise PlanRefused(f"the plan has a task without an id, or '{name}' twice")
        by_id[name] = task
    return by_id


def references(value: Any) -> Iterable[str]:
    """Ids of the tasks that a value refers to by ``$from``, at any depth."""
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


def dependencies(task: Mapping[str, Any]) -> set[str]:
    """What a task waits for: ``depends_on`` and every ``$from``."""
    listed = task.get("depends_on") or []
    return {str(name) for name in listed} | set(
        references([task.get("arguments"), task.get("inputs")])
    )


def layers(plan: Mapping[str, Any]) -> list[list[str]]:
    """Task ids layer by layer (Kahn's algorithm); within a layer in the plan's order.

    :raises PlanRefused: on a cycle, or a dependency on a task that is not there.
    """
    tasks = tasks_of(plan)
    graph = {name: dependencies(task) for name, task in tasks.items()}
    for name, needed in graph.items():
        unknown = needed - tasks.keys()
        if unknown:
            raise PlanRefused(f"task '{name}' depends on '{min(unknown)}', which is not there")
    sorter = TopologicalSorter(graph)
    try:
        sorter.prepare()
    except CycleError as error:
        raise PlanRefused(f"the tasks wait for each other: {' -> '.join(error.args[1])}") from error
    order = {name: at for at, name in enumerate(tasks)}
    found = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=order.__getitem__)
        found.append(ready)
        sorter.done(*ready)
    return found


def fresh_id(wanted: str, taken: Collection[str]) -> str:
    """A task id made of a tool's own name that no other task has: ``git_log``, ``git_log_2``."""
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
    """Those of ``among`` that none of ``among`` waits for, in the plan's order."""
    needed = {name for task in among for name in dependencies(tasks[task])}
    return [name for name in tasks if name in among and name not in needed]
