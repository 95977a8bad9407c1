"""What the rest of the product asks: suggest a plan, change one, say what comes next."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from graphrag import cache, conf, database_errors, ranking
from graphrag.graph import tool_graph
from graphrag.planning import argument_sources, drafting, intents, plans
from graphrag.planning.drafting import Draft, Nearest, TaskReason
from graphrag.planning.plans import PlanDict
from graphrag.retrieval.search import EVERYTHING, Filters

MAX_PREDICTIONS = 3
_PRICE_OF_A_GAP = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """An answer to an intent.

    ``plan`` is None below the threshold; then ``nearest`` and ``warnings`` say what there is.
    ``layers`` are the plan's task ids layer by layer. ``missing_inputs`` (input name -> tool that
    needs it) are inputs the plan refers to that were not given.
    """

    plan: PlanDict | None
    confidence: float
    layers: tuple[tuple[str, ...], ...] = ()
    reasons: tuple[TaskReason, ...] = ()
    nearest: tuple[Nearest, ...] = ()
    missing_inputs: Mapping[str, str]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prediction:
    """A tool that will probably come next; it followed ``after`` in ``observed`` executions."""

    tool: str
    confidence: float
    after: str
    observed: int


def suggest(
    intent: str, inputs: Mapping[str, Any] | None = None, *, filters: Filters = EVERYTHING
) -> Suggestion:
    """A plan for an intent in plain words, or None with the nearest tools.

    ``inputs`` are the execution's inputs as far as they are known; their names and types decide
    which arguments they fill. A database that refuses is told among the warnings.
    """
    return database_errors.answered(
        lambda: _suggest(intent, inputs or {}, filters),
        lambda reason: Suggestion(plan=None, confidence=0.0, missing_inputs={}, warnings=(reason,)),
    )


def _suggest(intent: str, inputs: Mapping[str, Any], filters: Filters) -> Suggestion:
    parsed = intents.steps(intent)
    given = list(argument_sources.of_values("inputs", inputs))
    draft = Draft(cache.current(), given, conf.suggest_max_tasks(), filters)
    threshold, confidences = conf.suggest_threshold(), []
    previous: list[str] = []
    for step in parsed:
        ranked = drafting.choose(draft, step)
        drafting.note_nearest(draft, ranked)
        best = ranked[0].confidence if ranked else 0.0
        confidences.append(best)
        if best < threshold or draft.room < 1:
            draft.warnings.append(_left_out(draft, step, ranked))
            continue
        after = previous if step.after_previous else ()
        previous = drafting.add_step(draft, step, ranked[0], after) or previous
    return _answer(draft, confidences, threshold)


def _left_out(draft: Draft, step: intents.Step, ranked: list[ranking.Ranked]) -> str:
    if draft.room < 1:
        return f"The plan is full ({draft.most} tasks); '{step.text[:200]}' was left out."
    return drafting.unfit(draft, step, ranked)


def _answer(draft: Draft, confidences: list[float], threshold: float) -> Suggestion:
    reasons = tuple(_with_company(draft, reason) for reason in draft.reasons)
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
        missing_inputs=dict(draft.missing),
        warnings=tuple(draft.warnings),
    )


def _with_company(draft: Draft, reason: TaskReason) -> TaskReason:
    """A task's confidence, lifted when it ran beside the plan's other tools before."""
    others = [other.tool for other in draft.reasons if other.tool != reason.tool]
    before = ranking.edges_from(draft.graph, others, reason.tool)
    after = [edge for other in others if (edge := draft.graph.edge(reason.tool, other)) is not None]
    confidence = ranking.supported(reason.confidence, [*before, *after])
    extra = tuple(text for text in ranking.edge_reasons(before) if text not in reason.reasons)
    return TaskReason(reason.task, reason.tool, round(confidence, 4), (*reason.reasons, *extra))


def _confidence(draft: Draft, confidences: list[float], reasons: tuple[TaskReason, ...]) -> float:
    """Mean over the steps; a step without a task keeps its own low value; a gap costs a tenth."""
    left_out = [value for value in confidences if value < conf.suggest_threshold()]
    values = [reason.confidence for reason in reasons] + left_out
    mean = sum(values) / len(values) if values else 0.0
    return round(mean * (_PRICE_OF_A_GAP if draft.missing else 1.0), 4)


def predict_next(done: Collection[str], *, limit: int | None = MAX_PREDICTIONS) -> list[Prediction]:
    """Up to `limit` tools that will probably come next, the likeliest first; None: all of them.

    ``done`` are tool names, the newest last. Confidence is the edge's own, times how regularly
    the edge was taken among those that leave its tool; only what exceeds 0.7 (setting) is told.
    """
    present = tool_graph.current()
    found: dict[str, Prediction] = {}
    for name in done:
        edges = present.after(name)
        most = max((edge.count for edge in edges), default=0)
        for edge in edges:
            confidence = edge.confidence * edge.count / most
            known = found.get(edge.to_tool)
            if edge.to_tool not in done and (known is None or known.confidence < confidence):
                found[edge.to_tool] = Prediction(
                    edge.to_tool, round(confidence, 4), name, edge.count
                )
    likely = [item for item in found.values() if item.confidence > conf.predict_threshold()]
    likely.sort(key=lambda item: (-item.confidence, -item.observed, item.tool))
    return likely[:limit]
