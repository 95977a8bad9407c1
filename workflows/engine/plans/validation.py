"""Structural validation of a plan: ids, dependencies, cycles, expressions.

`workflows.planning.catalogue_validation` checks tools and their schemas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

import networkx as nx
from pydantic import ValidationError

from .dag import SOURCES, AnyTask, ExternalActionTask, Plan, ToolTask, is_reference
from .dataflow import expression_error


@dataclass(frozen=True, slots=True)
class Problem:
    """A validation error: `path` in the document ("tasks[2].arguments.path"), code, message."""

    path: str
    code: str
    message: str


class PlanInvalid(Exception):
    """The plan is invalid; `problems` lists the errors."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(f"{each.path}: {each.message}" for each in problems))
        self.problems = problems


def parse_plan(data: Any) -> Plan:
    """Return a plan from parsed JSON; raises PlanInvalid with all errors."""
    try:
        plan = Plan.model_validate(data)
    except ValidationError as error:
        raise PlanInvalid(validation_problems(error)) from error
    problems = structure_problems(plan)
    if problems:
        raise PlanInvalid(problems)
    return plan


def external_action_problem(path: str) -> Problem:
    """Return the problem of an external action in a plan, at `path` of the task."""
    message = "only the approvals API makes tasks of this type"
    return Problem(f"{path}.type", "external_action", message)


def validation_problems(error: ValidationError, prefix: str = "") -> tuple[Problem, ...]:
    """Return pydantic's errors as problems, with paths such as `tasks[2].arguments.path`."""
    return tuple(
        Problem(_path(each["loc"], prefix), each["type"], each["msg"])
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    )


def _path(parts: tuple[int | str, ...], prefix: str) -> str:
    text = prefix
    before: int | str = ""
    for part in parts:
        is_tag = part in _TAGS and (isinstance(before, int) or before == "task")
        if isinstance(part, int):
            text += f"[{part}]"
        elif not is_tag:
            text += f".{part}" if text else part
        before = part
    return text or "plan"


#: Types of tasks: pydantic inserts the discriminator into the path of an error.
_TAGS = ("tool", "code_execution", "capability", "external_action")


def structure_problems(plan: Plan) -> tuple[Problem, ...]:
    """Return all structural errors of a well-formed plan, in the order of its tasks."""
    problems = [*_duplicates(plan), *_task_problems(plan)]
    return tuple(problems) or tuple(_cycles(plan))


def _duplicates(plan: Plan) -> Iterator[Problem]:
    counts = Counter(task.id for task in plan.tasks)
    for index, task in enumerate(plan.tasks):
        if counts[task.id] > 1:
            yield Problem(
                f"tasks[{index}].id", "duplicate_id", f"the id {task.id!r} is used more than once"
            )
        if task.id in SOURCES:
            yield Problem(f"tasks[{index}].id", "reserved_id", f"{task.id!r} is a reserved name")


def _task_problems(plan: Plan) -> Iterator[Problem]:
    known = {task.id for task in plan.tasks}
    for index, task in enumerate(plan.tasks):
        path = f"tasks[{index}]"
        if isinstance(task, ExternalActionTask):
            yield external_action_problem(path)
            continue
        for position, need in enumerate(task.depends_on):
            if need not in known:
                yield Problem(
                    f"{path}.depends_on[{position}]",
                    "missing_dependency",
                    f"there is no task {need!r}",
                )
        if task.when is not None and (error := expression_error(task.when)):
            yield Problem(f"{path}.when", "bad_expression", error)
        yield from _reference_problems(task, f"{path}.{_field(task)}", known)


def _field(task: AnyTask) -> str:
    return "arguments" if isinstance(task, ToolTask | ExternalActionTask) else "inputs"


def _reference_problems(task: AnyTask, path: str, known: set[str]) -> Iterator[Problem]:
    stack: list[tuple[str, Any]] = [(path, dict(task.values))]
    while stack:
        where, value = stack.pop()
        if isinstance(value, dict) and "$from" in value:
            yield from _one_reference(value, where, known | SOURCES)
        elif isinstance(value, dict):
            stack.extend((f"{where}.{key}", item) for key, item in value.items())
        elif isinstance(value, list | tuple):
            stack.extend((f"{where}[{index}]", item) for index, item in enumerate(value))


def _one_reference(value: dict[str, Any], path: str, known: set[str]) -> Iterator[Problem]:
    if not is_reference(value) or not value.keys() <= {"$from", "select"}:
        yield Problem(
            path, "bad_reference", 'a reference is {"$from": name} with an optional "select"'
        )
        return
    if value["$from"] not in known:
        yield Problem(f"{path}.$from", "bad_reference", f"there is no task {value['$from']!r}")
    select = value.get("select")
    if select is not None and not isinstance(select, str):
        yield Problem(f"{path}.select", "bad_expression", "must be a JMESPath expression")
    elif select is not None and (error := expression_error(select)):
        yield Problem(f"{path}.select", "bad_expression", error)


def _cycles(plan: Plan) -> Iterator[Problem]:
    needs = {task.id: task.needs for task in plan.tasks}
    try:
        TopologicalSorter(needs).prepare()
    except CycleError:
        yield from _cycles_of(plan, needs)


def _cycles_of(plan: Plan, needs: Mapping[str, frozenset[str]]) -> Iterator[Problem]:
    graph = nx.DiGraph([(need, name) for name in needs for need in needs[name] if need in needs])
    index = {task.id: position for position, task in enumerate(plan.tasks)}
    for component in nx.strongly_connected_components(graph):
        first = min(component, key=index.__getitem__)
        if len(component) > 1 or first in needs[first]:
            names = " → ".join(sorted(component, key=index.__getitem__))
            yield Problem(
                f"tasks[{index[first]}].depends_on", "cycle", f"tasks wait for each other: {names}"
            )
