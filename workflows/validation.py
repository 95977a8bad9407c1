"""Checking a plan against the catalogue, and fixing in it what the catalogue knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from .engine.dag import CodeTask, Plan, ToolTask, is_reference
from .engine.permissions import NAMED
from .engine.structure import PlanInvalid, Problem, parse_plan
from .schemas import schema_errors


class KnownTool(Protocol):
    """What a plan's check reads of a tool of the catalogue."""

    @property
    def input_schema(self) -> Mapping[str, Any]: ...

    @property
    def permission_set(self) -> str: ...


Catalogue = Callable[[Iterable[str]], Mapping[str, KnownTool]]


def checked_plan(data: Any, catalogue: Catalogue) -> Plan:
    """A plan that can be run, its tool tasks carrying the permission set of their tool.

    Raises PlanInvalid with every fault: structure first, then tools and their schemas.
    """
    plan = data if isinstance(data, Plan) else parse_plan(data)
    tools = catalogue(task.tool for task in plan.tasks if isinstance(task, ToolTask))
    problems = [
        problem
        for index, task in enumerate(plan.tasks)
        for problem in _task_problems(task, f"tasks[{index}]", tools)
    ]
    if problems:
        raise PlanInvalid(tuple(problems))
    return Plan(tasks=tuple(_with_permissions(task, tools) for task in plan.tasks))


def checked_task(task: Any, catalogue: Catalogue, path: str) -> Any:
    """One task that is to join a plan, checked like those of a plan; raises PlanInvalid."""
    tools = catalogue([task.tool] if isinstance(task, ToolTask) else [])
    problems = _task_problems(task, path, tools)
    if problems:
        raise PlanInvalid(tuple(problems))
    return _with_permissions(task, tools)


def _task_problems(task: Any, path: str, tools: Mapping[str, KnownTool]) -> list[Problem]:
    named = task.permission_set
    unknown = named is not None and named not in NAMED
    problems = []
    if unknown:
        message = f"must be one of {', '.join(sorted(NAMED))}"
        where = _join(path, "permission_set")
        problems.append(Problem(where, "unknown_permission_set", message))
    if isinstance(task, ToolTask):
        problems += _tool_problems(task, path, tools)
    return problems


def _tool_problems(task: ToolTask, path: str, tools: Mapping[str, KnownTool]) -> list[Problem]:
    tool = tools.get(task.tool)
    if tool is None:
        message = f"there is no tool {task.tool!r} in the catalogue, or it is disabled"
        return [Problem(_join(path, "tool"), "unknown_tool", message)]
    errors = schema_errors(tool.input_schema, task.arguments, wildcard=is_reference)
    return [
        Problem(_join(_join(path, "arguments"), each.path), "schema_mismatch", each.message)
        for each in errors
    ]


def _join(prefix: str, path: str) -> str:
    if not path or not prefix:
        return prefix or path
    return f"{prefix}{path}" if path.startswith("[") else f"{prefix}.{path}"


def _with_permissions(task: Any, tools: Mapping[str, KnownTool]) -> Any:
    if task.permission_set is not None:
        return task
    if isinstance(task, ToolTask):
        return task.model_copy(update={"permission_set": tools[task.tool].permission_set})
    if isinstance(task, CodeTask):
        return task.model_copy(update={"permission_set": "minimal"})
    return task
