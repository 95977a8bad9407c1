"""Suggest a plan for an intent."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from graphrag import cache, conf, database_errors, ranking
from graphrag.planning import argument_sources, intents, model_drafts, plans, step_tasks
from graphrag.planning.draft import (
    Draft,
    NearestTool,
    Question,
    Refused,
    TaskReason,
    nothing_refused,
)
from graphrag.planning.plans import PlanDict
from graphrag.retrieval.search import EVERYTHING, Filters


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """The suggested plan for an intent.

    ``plan`` is None when no step has a tool above the threshold; then ``nearest`` and ``warnings``
    list alternatives. ``confidence`` is the probability that the plan is right in everything;
    ``questions`` name what the planner is unsure of: missing inputs, parts of outputs, tools.
    ``layers`` are the plan's task ids layer by layer. ``missing_inputs`` (input name -> tool that
    needs it) are inputs the plan refers to that were not given.
    """

    plan: PlanDict | None
    confidence: float
    layers: tuple[tuple[str, ...], ...] = ()
    reasons: tuple[TaskReason, ...] = ()
    nearest: tuple[NearestTool, ...] = ()
    missing_inputs: Mapping[str, str]
    questions: tuple[Question, ...] = ()
    warnings: tuple[str, ...] = ()


def suggest(
    intent: str,
    inputs: Mapping[str, Any] | None = None,
    *,
    filters: Filters = EVERYTHING,
    refused: Refused = nothing_refused,
) -> Suggestion:
    """Suggest a plan for an intent in natural language, or None with the nearest tools.

    ``inputs`` are the known inputs of the execution; their names and types decide which arguments
    they fill. ``refused`` returns which tools people mostly refused: they come later, and the
    suggestion asks about them. A database error becomes a warning.
    """
    return database_errors.with_fallback(
        lambda: _suggest(intent, inputs or {}, filters, refused),
        lambda reason: Suggestion(plan=None, confidence=0.0, missing_inputs={}, warnings=(reason,)),
    )


def _suggest(
    intent: str, inputs: Mapping[str, Any], filters: Filters, refused: Refused
) -> Suggestion:
    by_rules = drafted(intent, inputs, filters, refused)
    draft = model_drafts.redrafted(
        by_rules, lambda: _empty(inputs, filters, refused), intent, inputs
    )
    reasons = tuple(_with_reasons_from_edges(draft, reason) for reason in draft.reasons)
    chosen = {reason.tool for reason in reasons}
    if not draft.tasks:
        return Suggestion(
            plan=None,
            confidence=0.0,
            nearest=tuple(draft.nearest),
            missing_inputs={},
            warnings=tuple(draft.warnings) or ("The intent is empty.",),
        )
    plan: PlanDict = {"tasks": draft.tasks}
    confidence = step_tasks.confidence(draft, reasons)
    step_tasks.ask_when_unsure(draft, confidence)
    return Suggestion(
        plan=plan,
        confidence=confidence,
        layers=tuple(tuple(layer) for layer in plans.layers(plan)),
        reasons=reasons,
        nearest=tuple(item for item in draft.nearest if item.tool not in chosen),
        missing_inputs=dict(draft.missing_inputs),
        questions=tuple(draft.questions),
        warnings=tuple(draft.warnings),
    )


def drafted(
    intent: str,
    inputs: Mapping[str, Any],
    filters: Filters = EVERYTHING,
    refused: Refused = nothing_refused,
) -> Draft:
    """Return the draft of a plan for an intent, by the rules."""
    draft = _empty(inputs, filters, refused)
    step_tasks.add_steps(draft, intents.steps(intent, vocabulary=draft.vocabulary), intent)
    return draft


def _empty(inputs: Mapping[str, Any], filters: Filters, refused: Refused) -> Draft:
    given = list(argument_sources.sources_of_values("inputs", inputs))
    return Draft(cache.current(), given, conf.suggest_max_tasks(), filters, refused)


def _with_reasons_from_edges(draft: Draft, reason: TaskReason) -> TaskReason:
    """Add the observed edges from the plan's other tools to the reasons for a task."""
    others = [other.tool for other in draft.reasons if other.tool != reason.tool]
    edges = ranking.edges_from(draft.graph, others, reason.tool)
    extra = tuple(text for text in ranking.edge_reasons(edges) if text not in reason.reasons)
    return replace(reason, reasons=(*reason.reasons, *extra))
