"""Add tasks to a running plan for a new requirement; existing tasks stay unchanged."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from graphrag import cache, conf, database_errors, tokenizer
from graphrag.catalogue.tool_record import own_name
from graphrag.planning import argument_sources, intents, model_drafts, plans, step_tasks
from graphrag.planning.draft import (
    Draft,
    NearestTool,
    Question,
    Refused,
    TaskReason,
    nothing_refused,
)
from graphrag.planning.plans import InvalidPlan, PlanDict
from graphrag.retrieval.search import EVERYTHING, Filters


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanResult:
    """A changed plan, or None with the reason among the warnings.

    ``added`` are the ids of the new tasks; every earlier task is unchanged. ``confidence`` is the
    probability that the new tasks are right, and ``questions`` name what the planner is unsure of.
    """

    plan: PlanDict | None
    added: tuple[str, ...] = ()
    confidence: float = 0.0
    reasons: tuple[TaskReason, ...] = ()
    nearest: tuple[NearestTool, ...] = ()
    missing_inputs: Mapping[str, str]
    questions: tuple[Question, ...] = ()
    warnings: tuple[str, ...] = ()


def replan(
    plan: Mapping[str, Any],
    settled: Collection[str],
    requirement: str,
    context: Mapping[str, Any] | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    filters: Filters = EVERYTHING,
    refused: Refused = nothing_refused,
    with_model: bool = True,
) -> ReplanResult:
    """Add tasks for a new requirement, at most three (setting ``replan_max_tasks``).

    ``settled`` are the ids of tasks that succeeded. New tasks read their outputs and depend only
    on them, so running and finished tasks do not change. ``context`` holds the values that the
    agent knows (``available_context``); the execution's context must contain them when the tasks
    run. ``refused`` returns which tools people mostly refused: they come later, and a question asks
    about them. A configured language model drafts the new tasks, unless ``with_model`` is off.
    Without a matching tool, for a plan with a cycle or an unknown task, and after a database error,
    the result has no plan and a warning.
    """
    return database_errors.with_fallback(
        lambda: _replan(
            plan,
            settled,
            requirement,
            _Known(context or {}, inputs or {}, filters, refused),
            with_model=with_model,
        ),
        lambda reason: ReplanResult(plan=None, missing_inputs={}, warnings=(reason,)),
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """What new tasks may read and call."""

    context: Mapping[str, Any]
    inputs: Mapping[str, Any]
    filters: Filters
    refused: Refused


def _replan(
    plan: Mapping[str, Any],
    settled: Collection[str],
    requirement: str,
    known: _Known,
    *,
    with_model: bool,
) -> ReplanResult:
    try:
        tasks = plans.tasks_of(plan)
        plans.layers(plan)
        finished = _settled_in_order(tasks, settled)
    except InvalidPlan as error:
        return ReplanResult(plan=None, missing_inputs={}, warnings=(f"Not replanned: {error}.",))
    draft = _draft(tasks, finished, known)
    anchors = plans.sinks(tasks, finished)
    steps = intents.steps(
        requirement, vocabulary=draft.vocabulary, antecedent=_object_of_last(draft)
    )
    step_tasks.add_steps(draft, steps, requirement, anchors)
    if with_model:
        draft = model_drafts.redrafted(
            draft,
            lambda: _draft(tasks, finished, known),
            requirement,
            known.inputs,
            anchors,
        )
    return _result(plan, tasks, draft, requirement)


def _object_of_last(draft: Draft) -> str:
    """Return what the last finished task is about, by the name of its tool."""
    records = [record for record in draft.earlier.values() if record]
    if not records:
        return ""
    words = tokenizer.words(own_name(records[-1]))
    no_objects = intents.VERBS | draft.server_words
    return " ".join(word for word in words if word not in no_objects)


def _settled_in_order(tasks: Mapping[str, dict[str, Any]], settled: Collection[str]) -> list[str]:
    unknown = set(settled) - tasks.keys()
    if unknown:
        raise InvalidPlan(f"task '{min(unknown)}' is settled but not in the plan")
    return [name for name in tasks if name in set(settled)]


def _draft(
    tasks: Mapping[str, dict[str, Any]],
    finished: list[str],
    known: _Known,
) -> Draft:
    done = {name: tasks[name] for name in finished}
    cached = cache.current()
    records = cached.tools.by_name(
        name for task in done.values() if (name := plans.tool_name(task))
    )
    return Draft(
        cached=cached,
        given_sources=[
            *argument_sources.sources_of_values("context", known.context),
            *argument_sources.sources_of_values("inputs", known.inputs),
        ],
        max_tasks=conf.replan_max_tasks(),
        filters=known.filters,
        refused=known.refused,
        earlier=step_tasks.records_by_task(done, records),
        used_ids=set(tasks),
    )


def _result(
    plan: Mapping[str, Any],
    tasks: Mapping[str, dict[str, Any]],
    draft: Draft,
    requirement: str,
) -> ReplanResult:
    needed = {name for task in draft.tasks for name in plans.dependencies(task)}
    added = [task for task in draft.tasks if task["id"] in needed or not _is_duplicate(task, tasks)]
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
    except InvalidPlan as error:
        return ReplanResult(plan=None, missing_inputs={}, warnings=(f"Not replanned: {error}.",))
    confidence = step_tasks.confidence(draft, draft.reasons)
    step_tasks.ask_when_unsure(draft, confidence)
    return ReplanResult(
        plan=changed,
        added=ids,
        confidence=confidence,
        reasons=tuple(reason for reason in draft.reasons if reason.task in ids),
        nearest=tuple(draft.nearest),
        missing_inputs=dict(draft.missing_inputs),
        questions=tuple(question for question in draft.questions if question.task in ids),
        warnings=tuple(draft.warnings),
    )


def _is_duplicate(task: Mapping[str, Any], tasks: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the plan already has a task with an equal call."""
    keys = ("type", "tool", "arguments", "capability", "inputs")
    return any(all(task.get(key) == other.get(key) for key in keys) for other in tasks.values())
