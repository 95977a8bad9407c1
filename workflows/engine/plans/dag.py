"""Plans: tasks, their references and dependencies, and the layers in which they run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from workflows.engine.policy.policies import ReviewPolicy, TriggerPhase
from workflows.engine.policy.standing_terms import StandingUse
from workflows.engine.values.secret_text import MaskedText, MaskedTitle

#: Names that `$from` may use besides task ids.
SOURCES = frozenset({"inputs", "context"})

#: The maximum number of tasks of a plan.
MAX_TASKS = 20_000

TaskId = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.\-]{0,63}$")]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Retry(_Frozen):
    """Retry policy of a task; the delay doubles with every attempt."""

    max_attempts: int = Field(default=1, ge=1, le=20)
    backoff_seconds: float = Field(default=1.0, ge=0, le=3600)

    def delay(self, attempt: int) -> float:
        """Seconds to wait after failed attempt number `attempt` (1-based)."""
        return float(min(self.backoff_seconds * 2 ** (attempt - 1), 3600.0))


class _Task(_Frozen, ABC):
    id: TaskId
    title: MaskedTitle = ""
    depends_on: tuple[TaskId, ...] = ()
    when: str | None = Field(default=None, max_length=2000)
    timeout_seconds: float | None = Field(default=None, gt=0, le=86_400)
    retry: Retry = Retry()
    permission_set: str | None = None
    human_review: ReviewPolicy | None = None
    # Sent by older clients; accepted but without effect, because permissions decide.
    side_effects: bool | None = Field(default=None, alias="sideEffects", exclude=True)

    @property
    @abstractmethod
    def values(self) -> Mapping[str, Any]:
        """The task's inputs in the plan, with unresolved references."""

    @property
    def label(self) -> str:
        return self.title or self.id

    @cached_property
    def needs(self) -> frozenset[str]:
        """Ids of the tasks that this one depends on: `depends_on` and every `$from`."""
        return (frozenset(self.depends_on) - SOURCES) | self.reads

    @cached_property
    def reads(self) -> frozenset[str]:
        """Ids of the tasks whose outputs this task's inputs reference."""
        return frozenset(references(self.values)) - SOURCES


#: The name of a remote runner.
Runner = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]


class ToolTask(_Task):
    """Calls one tool of the catalogue, named `server.tool`."""

    type: Literal["tool"]
    tool: str = Field(min_length=1, max_length=200)
    arguments: dict[str, Any] = {}
    # The remote runner that runs the tool; None is the one that the tool declares, or a worker.
    runner: Runner | None = None

    @property
    def values(self) -> Mapping[str, Any]:
        return self.arguments

    @property
    def target(self) -> str:
        return self.tool


class CodeTask(_Task):
    """Runs code in the sandbox with the least permission."""

    type: Literal["code_execution"]
    language: Literal["python", "typescript", "javascript"]
    code: str = Field(min_length=1, max_length=200_000)
    inputs: dict[str, Any] = {}

    @property
    def values(self) -> Mapping[str, Any]:
        return self.inputs

    @property
    def target(self) -> str:
        return f"{self.language} code"


class CapabilityTask(_Task):
    """Runs stored code with its own permission set."""

    type: Literal["capability"]
    capability: str = Field(min_length=1, max_length=200)
    inputs: dict[str, Any] = {}

    @property
    def values(self) -> Mapping[str, Any]:
        return self.inputs

    @property
    def target(self) -> str:
        return self.capability


class ExternalActionTask(_Task):
    """An action of an outside agent, which asks for approval and executes the action itself.

    `arguments` and `output` are the caller's data: a `$from` in them is no reference.  `output` is
    the result of an action that the caller executed before it asked.
    """

    type: Literal["external_action"]
    action: str = Field(min_length=1, max_length=200)
    arguments: dict[str, Any] = {}
    output: Any = None
    description: MaskedText = ""
    argument_schema: dict[str, Any] = {}
    risk: Literal["low", "medium", "high"] = "high"
    # True, or the JSON pointers of the values that a reviewer may change.
    editable: Literal[True] | tuple[str, ...] = True
    # The standing answer that covers the action when it is asked, so that no hold opens.
    standing: StandingUse | None = None
    # Replaces the run's id in the sample of a rule: asking again draws no other number.
    sample_seed: str | None = None

    @property
    def values(self) -> Mapping[str, Any]:
        return self.arguments

    @property
    def target(self) -> str:
        return self.action

    @cached_property
    def reads(self) -> frozenset[str]:
        return frozenset()

    @property
    def is_executed(self) -> bool:
        """Whether the caller executed the action before it asked."""
        review = self.human_review
        return review is not None and review.trigger_phase is TriggerPhase.AFTER_EXECUTION

    def result(self, arguments: Mapping[str, Any]) -> Any:
        """Return the output of the task: what the caller goes on with."""
        return self.output if self.is_executed else {"arguments": dict(arguments)}


AnyTask = ToolTask | CodeTask | CapabilityTask | ExternalActionTask
TaskSpec = Annotated[AnyTask, Field(discriminator="type")]


Layers = tuple[tuple[str, ...], ...]


class Plan(_Frozen):
    """A DAG of tasks.  Immutable: a replan creates a new revision."""

    tasks: tuple[TaskSpec, ...] = Field(min_length=1, max_length=MAX_TASKS)

    @cached_property
    def by_id(self) -> dict[str, AnyTask]:
        return {task.id: task for task in self.tasks}

    def layers(self, done: Iterable[str] = ()) -> Layers:
        """Return the layers of the tasks that are not in `done`, as tuples of task ids.

        A layer has the tasks whose dependencies are met at the same time, in plan order.
        """
        order = {task.id: index for index, task in enumerate(self.tasks)}
        rest = order.keys() - set(done)
        sorter = TopologicalSorter(
            {task.id: rest.intersection(task.needs) for task in self.tasks if task.id in rest}
        )
        sorter.prepare()
        layers = []
        while ready := sorter.get_ready():
            layers.append(tuple(sorted(ready, key=order.__getitem__)))
            sorter.done(*ready)
        return tuple(layers)

    @cached_property
    def leaves(self) -> frozenset[str]:
        return frozenset(self.by_id).difference(*(task.needs for task in self.tasks))

    def descendants(self, task_id: str) -> frozenset[str]:
        """Return all tasks that depend on this one, directly or indirectly."""
        return _reachable(task_id, self._dependents)

    def ancestors(self, task_id: str) -> frozenset[str]:
        """Return all tasks on which this one depends, directly or indirectly."""
        return _reachable(task_id, self._needs)

    @cached_property
    def _needs(self) -> Mapping[str, frozenset[str]]:
        return {task.id: task.needs for task in self.tasks}

    @cached_property
    def _dependents(self) -> Mapping[str, Sequence[str]]:
        dependents = defaultdict[str, list[str]](list)
        for task in self.tasks:
            for need in task.needs:
                dependents[need].append(task.id)
        return dict(dependents)


def _reachable(start: str, neighbours: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """Return the names that can be reached from `start`, without `start`."""
    found, new = set[str](), [start]
    while new:
        fresh = set(neighbours.get(new.pop(), ())) - found
        found |= fresh
        new.extend(fresh)
    return frozenset(found - {start})


@dataclass(frozen=True)
class Revision:
    """A plan and the layers in which it runs.

    The layers are stored with the plan, because a new revision keeps the layers that have begun: a
    task that is added later never becomes part of one of them.
    """

    number: int
    plan: Plan
    layers: Layers

    @classmethod
    def first(cls, plan: Plan) -> Revision:
        return cls(number=1, plan=plan, layers=plan.layers())

    def revised(self, plan: Plan, *, begun: int) -> Revision:
        """Return the next revision; the first `begun` layers stay unchanged."""
        kept = self.layers[:begun]
        done = {task_id for layer in kept for task_id in layer}
        return Revision(number=self.number + 1, plan=plan, layers=kept + plan.layers(done))

    def tasks(self, layer: int) -> tuple[AnyTask, ...]:
        return tuple(self.plan.by_id[task_id] for task_id in self.layers[layer])


def references(value: Any) -> Iterator[str]:
    """Yield the names in every `{"$from": name}` inside `value`."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if is_reference(item):
                yield item["$from"]
            else:
                stack.extend(item.values())
        elif isinstance(item, list | tuple):
            stack.extend(item)


def reads_context(task: AnyTask) -> bool:
    """Return whether the task's inputs or its `when` condition read the execution's context."""
    return "context" in references(task.values) or "context" in (task.when or "")


def is_reference(value: Any) -> bool:
    """Return whether `value` is `{"$from": name}` or `{"$from": name, "select": expression}`."""
    return isinstance(value, dict) and "$from" in value and isinstance(value["$from"], str)
