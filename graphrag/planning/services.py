"""Suggest a plan for an intent, and predict the next tools."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from graphrag import cache, conf, database_errors, ranking
from graphrag.graph import tool_graph
from graphrag.planning import argument_sources, intents, plans, step_tasks
from graphrag.planning.plans import PlanDict
from graphrag.planning.step_tasks import Draft, NearestTool, TaskReason
from graphrag.retrieval.search import EVERYTHING, Filters

MAX_PREDICTIONS = 3
_MISSING_INPUT_FACTOR = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """The suggested plan for an intent.

    ``plan`` is None below the threshold; then ``nearest`` and ``warnings`` list alternatives.
    ``layers`` are the plan's task ids layer by layer. ``missing_inputs`` (input name -> tool that
    needs it) are inputs the plan refers to that were not given.
    """

    plan: PlanDict | None
    confidence: float
    layers: tuple[tuple[str, ...], ...] = ()
    reasons: tuple[TaskReason, ...] = ()
    nearest: tuple[NearestTool, ...] = ()
    missing_inputs: Mapping[str, str]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prediction:
    """A probable next tool; it followed ``after`` in ``observed`` executions."""

    tool: str
    confidence: float
    after: str
    observed: int


def suggest(
    intent: str, inputs: Mapping[str, Any] | None = None, *, filters: Filters = EVERYTHING
) -> Suggestion:
    """Suggest a plan for an intent in natural language, or None with the nearest tools.

    ``inputs`` are the known inputs of the execution; their names and types decide which arguments
    they fill. A database error becomes a warning.
    """
    return database_errors.with_fallback(
        lambda: _suggest(intent, inputs or {}, filters),
        lambda reason: Suggestion(plan=None, confidence=0.0, missing_inputs={}, warnings=(reason,)),
    )


def _suggest(intent: str, inputs: Mapping[str, Any], filters: Filters) -> Suggestion:
    parsed = intents.steps(intent)
    given = list(argument_sources.sources_of_values("inputs", inputs))
    draft = Draft(cache.current(), given, conf.suggest_max_tasks(), filters)
    threshold, confidences = conf.suggest_threshold(), []
    previous: list[str] = []
    for step in parsed:
        ranked = step_tasks.rank_tools(draft, step)
        step_tasks.note_nearest(draft, ranked)
        best = ranked[0].confidence if ranked else 0.0
        confidences.append(best)
        if best < threshold or draft.remaining < 1:
            draft.warnings.append(_skipped_step_warning(draft, step, ranked))
            continue
        after = previous if step.after_previous else ()
        previous = step_tasks.add_step(draft, step, ranked[0], after) or previous
    return _result(draft, confidences, threshold)


def _skipped_step_warning(draft: Draft, step: intents.Step, ranked: list[ranking.Ranked]) -> str:
    if draft.remaining < 1:
        return f"The plan is full ({draft.max_tasks} tasks); '{step.text[:200]}' was left out."
    return step_tasks.no_match_warning(draft, step, ranked)


def _result(draft: Draft, confidences: list[float], threshold: float) -> Suggestion:
    reasons = tuple(_with_edges_to_other_tasks(draft, reason) for reason in draft.reasons)
    confidence = _confidence(draft, confidences, reasons)
    chosen = {reason.tool for reason in reasons}
    nearest = tuple(item for item in draft.nearest if item.tool not in chosen)
    if not draft.tasks or confidence < threshold:
        return Suggestion(
            plan=None,
            confidence=confidence,
            nearest=tuple(draft.nearest),
            missing_inputs={},
            warnings=tuple(draft.warnings) or ("The intent is empty.",),
        )
    plan: PlanDict = {"tasks": draft.tasks}
    return Suggestion(
        plan=plan,
        confidence=confidence,
        layers=tuple(tuple(layer) for layer in plans.layers(plan)),
        reasons=reasons,
        nearest=nearest,
        missing_inputs=dict(draft.missing_inputs),
        warnings=tuple(draft.warnings),
    )


def _with_edges_to_other_tasks(draft: Draft, reason: TaskReason) -> TaskReason:
    """Raise a task's confidence by observed edges to and from the plan's other tools."""
    others = [other.tool for other in draft.reasons if other.tool != reason.tool]
    before = ranking.edges_from(draft.graph, others, reason.tool)
    after = [edge for other in others if (edge := draft.graph.edge(reason.tool, other)) is not None]
    confidence = ranking.combined_confidence(reason.confidence, [*before, *after])
    extra = tuple(text for text in ranking.edge_reasons(before) if text not in reason.reasons)
    return TaskReason(reason.task, reason.tool, round(confidence, 4), (*reason.reasons, *extra))


def _confidence(draft: Draft, confidences: list[float], reasons: tuple[TaskReason, ...]) -> float:
    """Mean over tasks and steps without a task, reduced by a tenth if an input is missing."""
    left_out = [value for value in confidences if value < conf.suggest_threshold()]
    values = [reason.confidence for reason in reasons] + left_out
    mean = sum(values) / len(values) if values else 0.0
    return round(mean * (_MISSING_INPUT_FACTOR if draft.missing_inputs else 1.0), 4)


def predict_next(done: Collection[str], *, limit: int | None = MAX_PREDICTIONS) -> list[Prediction]:
    """Return up to ``limit`` probable next tools, most likely first; None returns all.

    ``done`` are tool names, the newest last. The confidence is that of the edge, times its count
    as a share of the highest count among the edges from its tool; only predictions above 0.7
    (setting ``predict_threshold``) are returned.
    """
    graph = tool_graph.current()
    predictions: dict[str, Prediction] = {}
    for name in done:
        edges = graph.after(name)
        most = max((edge.count for edge in edges), default=0)
        for edge in edges:
            confidence = edge.confidence * edge.count / most
            previous = predictions.get(edge.to_tool)
            if edge.to_tool not in done and (previous is None or previous.confidence < confidence):
                predictions[edge.to_tool] = Prediction(
                    edge.to_tool, round(confidence, 4), name, edge.count
                )
    likely = [item for item in predictions.values() if item.confidence > conf.predict_threshold()]
    likely.sort(key=lambda item: (-item.confidence, -item.observed, item.tool))
    return likely[:limit]
