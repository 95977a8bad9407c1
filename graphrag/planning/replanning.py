"""Changes a running plan: keeps what is there, adds tools for what was discovered."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from graphrag import cache, conf, database_errors
from graphrag.planning import argument_sources, drafting, intents, plans
from graphrag.planning.drafting import Draft, Nearest, TaskReason
from graphrag.planning.plans import PlanDict, PlanRefused
from graphrag.retrieval.search import EVERYTHING, Filters


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanResult:
    """A changed plan, or None with the reason among the warnings.

    ``added`` are the new tasks' ids; every earlier task is kept as it was.
    """

    plan: PlanDict | None
    added: tuple[str, ...] = ()
    reasons: tuple[TaskReason, ...] = ()
    nearest: tuple[Nearest, ...] = ()
    missing_inputs: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def replan(
    plan: Mapping[str, Any],
    settled: Collection[str],
    requirement: str,
    context: Mapping[str, Any] | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    filters: Filters = EVERYTHING,
) -> ReplanResult:
    """Add tools for a new requirement, at most three (setting).

    ``settled`` are the ids of tasks that succeeded: new tasks read their outputs and depend on
    them alone, so nothing running or finished changes. ``context`` is what the agent knows
    (``available_context``) and must be among the execution's context by the time the tasks run.
    Nothing found, a plan with a cycle or an unknown task, a database that refuses: no plan, and a
    warning that says so.
    """
    return database_errors.answered(
        lambda: _replan(plan, settled, requirement, context or {}, inputs or {}, filters),
        lambda reason: ReplanResult(plan=None, missing_inputs={}, warnings=(reason,)),
    )


def _replan(
    plan: Mapping[str, Any],
    settled: Collection[str],
    requirement: str,
    context: Mapping[str, Any],
    inputs: Mapping[str, Any],
    filters: Filters,
) -> ReplanResult:
    try:
        tasks = plans.tasks_of(plan)
        plans.layers(plan)
        finished = _finished(tasks, settled)
    except PlanRefused as error:
        return ReplanResult(plan=None, missing_inputs={}, warnings=(f"Not replanned: {error}.",))
    draft = _draft(tasks, finished, context, inputs, filters)
    anchors = plans.sinks(tasks, finished)
    for step in intents.steps(requirement):
        ranked = drafting.choose(draft, step)
        drafting.note_nearest(draft, ranked)
        if draft.room < 1:
            draft.warnings.append(f"At most {draft.most} tasks are added; '{step.text}' was not.")
        elif not ranked or ranked[0].confidence < conf.suggest_threshold():
            draft.warnings.append(drafting.unfit(draft, step, ranked))
        else:
            drafting.add_step(draft, step, ranked[0], _after(step, draft, anchors))
    return _answer(plan, tasks, draft, requirement)


def _finished(tasks: Mapping[str, dict[str, Any]], settled: Collection[str]) -> list[str]:
    unknown = set(settled) - tasks.keys()
    if unknown:
        raise PlanRefused(f"task '{min(unknown)}' is settled but not in the plan")
    return [name for name in tasks if name in set(settled)]


def _draft(
    tasks: Mapping[str, dict[str, Any]],
    finished: list[str],
    context: Mapping[str, Any],
    inputs: Mapping[str, Any],
    filters: Filters,
) -> Draft:
    done = {name: tasks[name] for name in finished}
    known = cache.current()
    records = known.shelf.by_name(name for task in done.values() if (name := plans.tool_name(task)))
    return Draft(
        known=known,
        given=[
            *argument_sources.of_values("context", context),
            *argument_sources.of_values("inputs", inputs),
        ],
        most=conf.replan_max_tasks(),
        filters=filters,
        earlier=drafting.settled_records(done, records),
        taken=set(tasks),
    )


def _after(step: intents.Step, draft: Draft, anchors: list[str]) -> list[str]:
    """What a new task waits for at least: the last new one, or the newest finished ones."""
    return [draft.tasks[-1]["id"]] if step.after_previous and draft.tasks else anchors


def _answer(
    plan: Mapping[str, Any],
    tasks: Mapping[str, dict[str, Any]],
    draft: Draft,
    requirement: str,
) -> ReplanResult:
    needed = {name for task in draft.tasks for name in plans.dependencies(task)}
    added = [task for task in draft.tasks if task["id"] in needed or not _is_there(task, tasks)]
    if not added:
        warnings = draft.warnings or [f"Nothing was found for '{requirement[:200]}'."]
        if draft.tasks:
            warnings = [*draft.warnings, "The plan has these tasks already."]
        return ReplanResult(
            plan=None,
            nearest=tuple(draft.nearest),
            missing_inputs={},
            warnings=tuple(warnings),
        )
    changed: PlanDict = {**plan, "tasks": [*tasks.values(), *added]}
    ids = tuple(task["id"] for task in added)
    try:
        plans.layers(changed)
    except PlanRefused as error:
        return ReplanResult(plan=None, missing_inputs={}, warnings=(f"Not replanned: {error}.",))
    return ReplanResult(
        plan=changed,
        added=ids,
        reasons=tuple(reason for reason in draft.reasons if reason.task in ids),
        nearest=tuple(draft.nearest),
        missing_inputs=dict(draft.missing),
        warnings=tuple(draft.warnings),
    )


def _is_there(task: Mapping[str, Any], tasks: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the plan already has the same call (a second one would only repeat it)."""
    keys = ("type", "tool", "arguments", "capability", "inputs")
    return any(all(task.get(key) == other.get(key) for key in keys) for other in tasks.values())
