"""Validate a plan against the catalogue, and complete it with what the catalogue knows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from workflows.common.schemas import schema_errors
from workflows.engine.plans.dag import (
    CapabilityTask,
    CodeTask,
    ExternalActionTask,
    Plan,
    ToolTask,
    is_reference,
)
from workflows.engine.plans.risk import is_critical
from workflows.engine.plans.validation import (
    PlanInvalid,
    Problem,
    external_action_problem,
    parse_plan,
)
from workflows.engine.policy.permissions import NAMED, PermissionSet
from workflows.engine.policy.policies import ReviewPolicy, TriggerPhase
from workflows.remote.services import runner_of, runner_problem


class KnownTool(Protocol):
    """The properties of a tool that plan validation needs."""

    @property
    def input_schema(self) -> Mapping[str, Any]: ...

    @property
    def permission_set(self) -> str: ...

    @property
    def read_only(self) -> bool: ...

    @property
    def can_destroy(self) -> bool: ...


class KnownCapability(Protocol):
    """The properties of a capability; with `asks`, a person approves each use."""

    @property
    def input_schema(self) -> Mapping[str, Any]: ...

    @property
    def permission_set(self) -> str: ...

    @property
    def asks(self) -> bool: ...


Catalogue = Callable[[Iterable[str]], Mapping[str, KnownTool]]
Capabilities = Callable[[Iterable[str]], Mapping[str, KnownCapability]]
Confines = Callable[[str], bool]
"""Whether the tool of this name can be held to a smaller permission set than its own."""

#: The review of a capability whose approval mode is "ask".
_EACH_USE = ReviewPolicy(
    on_timeout="keep_waiting",
    on_reject="fail",
    instructions="This capability asks before each use.",
    always=True,
)

#: The review of a tool that can destroy data.
_DESTRUCTIVE = ReviewPolicy(
    on_timeout="keep_waiting",
    on_reject="fail",
    instructions="This tool can destroy data.",
    always=True,
)


#: The review of a task that can modify data and that nobody wrote into the plan which was started:
#: a replan, a suggestion or a command added it.
_ADDED = ReviewPolicy(
    on_timeout="keep_waiting",
    on_reject="skip",
    instructions="This task was added to the plan and can modify data.",
    always=True,
)


def _every_tool(name: str) -> bool:
    return True


def no_capabilities(names: Iterable[str]) -> Mapping[str, KnownCapability]:
    """Return no capabilities, for plans of tools only."""
    return {}


@dataclass(frozen=True, slots=True)
class _Known:
    """What the tasks to check name, looked up at once.

    `reviewers` are the groups to which required reviews may go; None for any group.
    """

    tools: Mapping[str, KnownTool]
    capabilities: Mapping[str, KnownCapability]
    confines: Confines
    reviewers: Collection[str] | None = None

    @classmethod
    def of(
        cls,
        tasks: Iterable[Any],
        catalogue: Catalogue,
        capabilities: Capabilities,
        confines: Confines,
        reviewers: Collection[str] | None = None,
    ) -> _Known:
        listed = list(tasks)
        return cls(
            catalogue([task.tool for task in listed if isinstance(task, ToolTask)]),
            capabilities([task.capability for task in listed if isinstance(task, CapabilityTask)]),
            confines,
            reviewers,
        )


def checked_plan(
    data: Any,
    catalogue: Catalogue,
    capabilities: Capabilities = no_capabilities,
    confines: Confines = _every_tool,
    *,
    kept: Collection[str] = frozenset(),
    reviewers: Collection[str] | None = None,
) -> Plan:
    """Validate a plan, and set the permission set of each task from its tool or capability.

    A task whose tool declares a remote runner gets that runner, unless it names one.
    A task with a capability that asks before each use, or with a tool that can destroy data, gets
    a review unless it has one; no rule and no timeout replaces the person, and only `reviewers` may
    decide it, if they are given.  Tasks with an id in `kept` were checked before and stay as they
    are.  Raises PlanInvalid with all problems: first of
    the structure, then of tools, capabilities and schemas.
    """
    plan = data if isinstance(data, Plan) else parse_plan(data)
    new = [task for task in plan.tasks if task.id not in kept]
    known = _Known.of(new, catalogue, capabilities, confines, reviewers)
    problems = [
        problem
        for index, task in enumerate(plan.tasks)
        if task.id not in kept
        for problem in _task_problems(task, f"tasks[{index}]", known)
    ]
    if problems:
        raise PlanInvalid(tuple(problems))
    return _replaced(plan, (_completed(task, known) for task in new))


def rechecked(
    plan: Plan,
    begun: Collection[str],
    catalogue: Catalogue,
    capabilities: Capabilities,
    added: Collection[str] = (),
    reviewers: Collection[str] | None = None,
) -> Plan:
    """Return the plan with the reviews that the catalogue requires now, for a fork or a replan.

    Tools and capabilities may have been marked since the plan was checked.  Tasks in `begun` stay
    as they are.  Tasks in `added` wait for a person unless they only read; a looser review that
    they took over from a similar task becomes as strict.  Raises PlanInvalid if another task has a
    looser review than the catalogue allows.
    """
    left = [task for task in plan.tasks if task.id not in begun]
    known = _Known.of(left, catalogue, capabilities, _every_tool, reviewers)
    problems = [
        problem
        for index, task in enumerate(plan.tasks)
        if task.id not in begun and task.id not in added
        for problem in _review_problems(task, f"tasks[{index}].human_review", known)
    ]
    if problems:
        raise PlanInvalid(tuple(problems))
    return _replaced(
        plan, (_with_required_review(task, known, is_added=task.id in added) for task in left)
    )


def _replaced(plan: Plan, tasks: Iterable[Any]) -> Plan:
    by_id = {task.id: task for task in tasks}
    return Plan(tasks=tuple(by_id.get(task.id, task) for task in plan.tasks))


def checked_task(
    task: Any,
    catalogue: Catalogue,
    capabilities: Capabilities,
    path: str,
    confines: Confines = _every_tool,
    *,
    reviewers: Collection[str] | None = None,
    is_added: bool = False,
) -> Any:
    """Validate a task of a plan that runs; raises PlanInvalid.

    With `is_added`, the task is new in the plan, and waits for a person unless it only reads.
    """
    known = _Known.of([task], catalogue, capabilities, confines, reviewers)
    problems = _task_problems(task, path, known)
    if not problems and is_added:
        problems = _added_problems(task, _join(path, "human_review"), known)
    if problems:
        raise PlanInvalid(tuple(problems))
    return _completed(task, known, is_added=is_added)


def _task_problems(task: Any, path: str, known: _Known) -> list[Problem]:
    if isinstance(task, ExternalActionTask):
        return [external_action_problem(path)]
    problems = []
    if task.permission_set is not None and task.permission_set not in NAMED:
        message = f"must be one of {', '.join(sorted(NAMED))}"
        where = _join(path, "permission_set")
        problems.append(Problem(where, "unknown_permission_set", message))
    if isinstance(task, ToolTask):
        problems += _tool_problems(task, path, known)
    if isinstance(task, CapabilityTask):
        problems += _capability_problems(task, path, known)
    return problems


def _tool_problems(task: ToolTask, path: str, known: _Known) -> list[Problem]:
    tool = known.tools.get(task.tool)
    if tool is None:
        message = f"there is no tool {task.tool!r} in the catalogue, or it is disabled"
        return [Problem(_join(path, "tool"), "unknown_tool", message)]
    problems = _mismatches(tool.input_schema, task.arguments, _join(path, "arguments"))
    chosen, own = NAMED.get(task.permission_set or ""), NAMED.get(tool.permission_set)
    if chosen and own and not (chosen.covers(own) or known.confines(task.tool)):
        message = (
            f"{task.tool} runs with the permission set {tool.permission_set} and cannot be limited "
            "to a smaller one"
        )
        problems.append(Problem(_join(path, "permission_set"), "not_confined", message))
    unable = runner_problem(task, _join(path, "runner"))
    if unable is not None:
        problems.append(unable)
    return problems + _review_problems(task, _join(path, "human_review"), known)


def _review_problems(task: Any, path: str, known: _Known) -> list[Problem]:
    """Return why the review of the task is looser than its tool or capability requires."""
    review = task.human_review
    if review is None or not review.enabled:
        return []
    problems = []
    if _can_destroy(task, known):
        problems = _unsafe_review(f"{task.tool} can destroy data", review, path)
    elif not _asks(task, known):
        return []
    elif review.can_skip:
        message = (
            "the review of a capability that asks before each use takes no skip_when or sample"
        )
        problems = [Problem(path, "always_reviewed", message)]
    return problems + _group_problems(review, path, known)


def _group_problems(review: ReviewPolicy, path: str, known: _Known) -> list[Problem]:
    """Return a problem for each group of a required review that may not decide it."""
    lists = {"groups": review.groups} | {
        f"escalation[{number}].groups": step.groups
        for number, step in enumerate(review.escalation or ())
    }
    return [
        problem
        for place, groups in lists.items()
        for problem in other_reviewers(groups, known.reviewers, _join(path, place))
    ]


def other_reviewers(
    groups: Iterable[str], reviewers: Collection[str] | None, path: str
) -> list[Problem]:
    """Return a problem for each group that may not decide a required review."""
    if reviewers is None:
        return []
    allowed = ", ".join(sorted(reviewers))
    return [
        Problem(
            f"{path}[{index}]",
            "other_reviewers",
            f"the review of this task is required and only {allowed} may decide it; neither the"
            f" workflow nor the installation names {name!r}",
        )
        for index, name in enumerate(groups)
        if name not in reviewers
    ]


def required_reviews(plan: Plan, catalogue: Catalogue, capabilities: Capabilities) -> list[str]:
    """Return the ids of the tasks for which the catalogue requires a review."""
    known = _Known.of(plan.tasks, catalogue, capabilities, _every_tool)
    return [each.id for each in plan.tasks if _can_destroy(each, known) or _asks(each, known)]


def _added_problems(task: Any, path: str, known: _Known) -> list[Problem]:
    """Return why the review that an added task states is looser than required."""
    review = task.human_review
    if review is None or not review.enabled or only_reads(task, known):
        return []
    why = f"{task.target} can modify data and is added to the plan"
    return _unsafe_review(why, review, path) + _group_problems(review, path, known)


def only_reads(task: Any, known: _Known) -> bool:
    """Whether the task can only read, by the catalogue's marks and by its permission set."""
    if isinstance(task, ToolTask):
        tool = known.tools.get(task.tool)
        if tool is None or not tool.read_only or tool.can_destroy:
            return False
        return not is_critical(_with_permission_set(task, tool.permission_set))
    if isinstance(task, CapabilityTask):
        capability = known.capabilities.get(task.capability)
        if capability is None:
            return False
        return not is_critical(_with_permission_set(task, capability.permission_set))
    return not is_critical(task)


def _can_destroy(task: Any, known: _Known) -> bool:
    tool = known.tools.get(task.tool) if isinstance(task, ToolTask) else None
    return tool is not None and tool.can_destroy


def _asks(task: Any, known: _Known) -> bool:
    name = task.capability if isinstance(task, CapabilityTask) else ""
    capability = known.capabilities.get(name)
    return capability is not None and capability.asks


def _unsafe_review(why: str, review: ReviewPolicy, path: str) -> list[Problem]:
    """Return the problem of a review after which a task could run that no person decided about."""
    if review.trigger_phase is not TriggerPhase.BEFORE_EXECUTION:
        message = f"{why}: its review must be before it runs"
    elif review.can_skip or review.on_timeout == "approve":
        message = f"{why}: its review takes no skip_when, no sample and no approval by timeout"
    else:
        return []
    return [Problem(path, "always_reviewed", message)]


def above_ceiling(
    tasks: Iterable[tuple[str, Any]], ceilings: Collection[PermissionSet], catalogue: Catalogue
) -> tuple[Problem, ...]:
    """Return a problem for each task whose permission set is above all `ceilings`.

    This concerns sets that the plan chooses: not a tool's own set, nor that of a capability, which
    a plan can only reduce.
    """
    above = [
        (path, task)
        for path, task in tasks
        if not isinstance(task, CapabilityTask)
        and task.permission_set in NAMED
        and not any(each.covers(NAMED[task.permission_set]) for each in ceilings)
    ]
    known = catalogue([task.tool for _, task in above if isinstance(task, ToolTask)])
    return tuple(
        Problem(
            _join(path, "permission_set"),
            "above_ceiling",
            f"your role does not let you choose {task.permission_set!r} for a task",
        )
        for path, task in above
        if not (isinstance(task, ToolTask) and _is_own(task, known))
    )


def _is_own(task: ToolTask, known: Mapping[str, KnownTool]) -> bool:
    tool = known.get(task.tool)
    own = NAMED.get(tool.permission_set) if tool else None
    return own is not None and own.covers(NAMED[task.permission_set or "minimal"])


def _capability_problems(task: CapabilityTask, path: str, known: _Known) -> list[Problem]:
    capability = known.capabilities.get(task.capability)
    if capability is None:
        message = f"there is no capability {task.capability!r}, or it is disabled"
        return [Problem(_join(path, "capability"), "unknown_capability", message)]
    looser = _review_problems(task, _join(path, "human_review"), known)
    return looser or _mismatches(capability.input_schema, task.inputs, _join(path, "inputs"))


def _mismatches(schema: Any, values: Mapping[str, Any], path: str) -> list[Problem]:
    errors = schema_errors(schema, dict(values), wildcard=is_reference)
    return [Problem(_join(path, each.path), "schema_mismatch", each.message) for each in errors]


def _join(prefix: str, path: str) -> str:
    if not path or not prefix:
        return prefix or path
    return f"{prefix}{path}" if path.startswith("[") else f"{prefix}.{path}"


def _completed(task: Any, known: _Known, *, is_added: bool = False) -> Any:
    """Return the task with values from the catalogue that the plan does not set."""
    if isinstance(task, CodeTask):
        task = _with_permission_set(task, "minimal")
    if isinstance(task, ToolTask):
        task = _with_permission_set(task, known.tools[task.tool].permission_set)
        if task.runner is None and (runner := runner_of(task)) is not None:
            task = task.model_copy(update={"runner": runner})
    if isinstance(task, CapabilityTask):
        task = _with_permission_set(task, known.capabilities[task.capability].permission_set)
    return _with_required_review(task, known, is_added=is_added)


def _with_permission_set(task: Any, otherwise: str) -> Any:
    if task.permission_set is not None:
        return task
    return task.model_copy(update={"permission_set": otherwise})


def _with_required_review(task: Any, known: _Known, *, is_added: bool = False) -> Any:
    """Return the task with the review that its tool or capability requires."""
    if _can_destroy(task, known):
        required = _DESTRUCTIVE
    elif _asks(task, known):
        required = _EACH_USE
    elif is_added and not only_reads(task, known):
        required = _ADDED
    else:
        return task
    review = _always(task.human_review, required, is_before=is_added)
    return task.model_copy(update={"human_review": review})


def _always(
    review: ReviewPolicy | None, otherwise: ReviewPolicy, *, is_before: bool
) -> ReviewPolicy:
    """Return the enabled review, made unconditional, or another one.

    With `is_before`, a person decides before the task runs, and no timeout approves.
    """
    if review is None or not review.enabled:
        return otherwise
    changes: dict[str, Any] = {"always": True}
    if is_before:
        changes |= {
            "skip_when": None,
            "sample": None,
            "trigger_phase": TriggerPhase.BEFORE_EXECUTION,
        }
        if review.on_timeout == "approve":
            changes["on_timeout"] = "reject"
    return review.model_copy(update=changes)
