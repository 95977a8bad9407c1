"""Turn steps into tasks: choose a tool, fill its arguments, add tasks that produce missing ones."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, field

from graphrag import ranking
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.planning import (
    argument_sources,
    arguments,
    calibration,
    parameters,
    plans,
    tool_choice,
)
from graphrag.planning.arguments import FilledArguments
from graphrag.planning.draft import Candidate, Considered, Draft, NearestTool, Question, TaskReason
from graphrag.planning.intents import Step
from graphrag.planning.parameters import Parameter
from graphrag.planning.tool_choice import Choice
from graphrag.ranking import Ranked
from graphrag.retrieval import search
from graphrag.retrieval.search import Filters

_PRODUCERS = 12
_PRODUCER_FIT, _PRODUCER_NAME_FIT = 0.6, 0.9
#: Probability below which the planner asks whether a tool is the right one.
SURE = 0.5
#: Probability of a plan below which the planner asks about it: with the first fit, the lowest in
#: steps of 0.05 at which at most 5 % of the fitting half's plans were wrong and asked nothing.
PLAN_SURE = 0.65


@dataclass(slots=True)
class Order:
    """The tasks that the next one follows: ``anchors`` if it may run beside ``group``, else those.

    Tasks that only read may run side by side; text order holds for all others.
    """

    anchors: list[str] = field(default_factory=list)
    group: list[str] = field(default_factory=list)

    def before(self, *, beside: bool) -> list[str]:
        """Return the tasks that the next one depends on."""
        if not beside:
            self.anchors, self.group = self.group or self.anchors, []
        return self.anchors


def add_steps(
    draft: Draft, steps: Sequence[Step], intent: str, anchors: Collection[str] = ()
) -> None:
    """Add the tasks of all steps. ``anchors`` are tasks that the first step depends on."""
    found = [tool_choice.candidates(draft, step) for step in steps]
    common = tool_choice.servers_of_plan(found)
    named = draft.servers_in(intent)
    order = Order(list(anchors))
    for step, ranked in zip(steps, found, strict=True):
        choices = tool_choice.choose(draft, step, ranked, common=common, named=named)
        note_nearest(draft, [choice.ranked for choice in choices])
        matching = [each for each in choices if tool_choice.is_match(draft, each, named)]
        _note_candidates(draft, matching)
        best = matching[0] if matching else None
        ids: list[str] = []
        if draft.remaining < 1:
            draft.left_out += 1
            draft.warnings.append(_full(draft, step))
        elif best is None:
            draft.left_out += 1
            draft.warnings.append(no_match_warning(draft, step, [each.ranked for each in choices]))
        else:
            reads = best.ranked.tool.read_only and draft.is_read_only(order.group)
            after = order.before(beside=reads and not step.after_previous)
            ids = _add_step(draft, step, choices, after)
            order.group += ids
        unused = choices[0].filled[0].unused if ids and choices[0].filled else ()
        signals = {each.ranked.tool.name: astuple(each.signals) for each in choices}
        draft.considered.append(Considered(step, signals, ids[0] if ids else "", unused))


def confidence(draft: Draft, reasons: Sequence[TaskReason]) -> float:
    """Return the probability that the new tasks are right in everything."""
    features = plan_features(draft, [each.confidence for each in reasons])
    return round(calibration.of_plan(features), 4)


def plan_features(draft: Draft, confidences: Sequence[float]) -> tuple[float, ...]:
    """Return the features of a plan whose tasks have these confidences."""
    arguments_asked = [question for question in draft.questions if question.argument]
    missing = sum(question.is_about_input for question in arguments_asked)
    return calibration.plan_features(
        confidences,
        missing=missing,
        unsure=len(arguments_asked) - missing,
        unused=sum(len(each.unused) for each in draft.considered),
        left_out=draft.left_out,
    )


def ask_when_unsure(draft: Draft, plan_confidence: float) -> None:
    """Ask about a plan that is probably not right: its least certain tool, and unused values."""
    if plan_confidence >= PLAN_SURE or not draft.reasons:
        return
    asked = {question.task for question in draft.questions if not question.argument}
    steps = {each.task: each for each in draft.considered if each.task}
    least = min(draft.reasons, key=lambda reason: reason.confidence)
    if least.task in steps and not asked:
        each = steps[least.task]
        draft.questions.append(which_tool(least.task, each.step, list(each.signals)))
    for each in steps.values():
        tool = next(reason.tool for reason in draft.reasons if reason.task == each.task)
        draft.questions += [
            Question(each.task, tool, "", f"No argument has '{value[:200]}'. Where does it belong?")
            for value in each.unused
        ]


def _note_candidates(draft: Draft, choices: Sequence[Choice]) -> None:
    for choice in choices:
        name, confidence = choice.ranked.tool.name, choice.confidence
        if name not in draft.candidates or draft.candidates[name].confidence < confidence:
            draft.candidates[name] = Candidate(choice.ranked.tool, confidence)


def _full(draft: Draft, step: Step) -> str:
    return f"The plan is full ({draft.max_tasks} tasks); '{step.text[:200]}' was left out."


def _add_step(
    draft: Draft, step: Step, choices: Sequence[Choice], after: Collection[str]
) -> list[str]:
    """Add the tasks for one step and return their ids."""
    best = choices[0]
    tool, filled = best.ranked.tool, best.filled
    if filled and filled[0].missing and draft.remaining > 1:
        producer = _add_producer(draft, step, best, filled[0].missing)
        if producer:
            filled = tool_choice.arguments_of(draft, step, best.ranked)
    ids = []
    for one in filled[: max(0, draft.remaining)]:
        ids.append(draft.add(tool, one, after))
        draft.reasons.append(
            TaskReason(ids[-1], tool.name, round(best.confidence, 4), best.ranked.reasons)
        )
        ask(draft, ids[-1], tool, one)
        draft.features[ids[-1]] = best.features
    names = [each.ranked.tool.name for each in choices]
    if ids and best.is_refused:
        text = f"People refused most of the latest calls of '{tool.name}'. Use it all the same?"
        draft.questions.append(Question(ids[0], tool.name, "", text))
    elif ids and best.confidence < SURE:
        draft.questions.append(which_tool(ids[0], step, names))
    return ids


def ask(draft: Draft, task: str, tool: ToolRecord, filled: FilledArguments) -> None:
    """Ask for the missing and the unsure arguments of a task."""
    for name in filled.missing:
        draft.missing_inputs.setdefault(name, tool.name)
    draft.questions += _questions(task, tool, filled)


def _questions(task: str, tool: ToolRecord, filled: FilledArguments) -> list[Question]:
    listed = {each.name: each for each in parameters.parameters_of(tool)}
    return [
        *(
            Question(task, tool.name, name, _asked_value(listed[name]), is_about_input=True)
            for name in filled.missing
        ),
        *(
            Question(task, tool.name, name, _asked_part(name, filled.values[name]["$from"]))
            for name in filled.unsure
        ),
    ]


def _asked_value(parameter: Parameter) -> str:
    described = " ".join(parameter.description.split()).rstrip(".")[:200]
    return (
        f"What is '{parameter.name}'? {described}." if described else f"What is '{parameter.name}'?"
    )


def _asked_part(name: str, task: str) -> str:
    return f"Which part of the output of '{task}' is '{name}'?"


def which_tool(task: str, step: Step, tools: Sequence[str]) -> Question:
    """Return the question whether the first of the tools is right for a step."""
    others = ", ".join(tools[1:3])
    instead = f" Others that fit: {others}." if others else ""
    text = f"Is '{tools[0]}' the right tool for '{step.text[:200]}'?{instead}"
    return Question(task, tools[0], "", text)


def _add_producer(draft: Draft, step: Step, chosen: Choice, missing: Sequence[str]) -> str | None:
    """Add a read-only tool of the same server whose output provides the missing arguments.

    It is as probable as the tool that needs it.
    """
    tool = chosen.ranked.tool
    wanted = [each for each in parameters.parameters_of(tool) if each.name in missing]
    if any((each.is_bare and not each.is_path) or not each.takes_scalars for each in wanted):
        return None
    if step.refers_back and any(each.is_content for each in wanted):
        return None  # the text means an earlier output, not one that is yet to be read
    for candidate in _producers(draft, step, tool, missing):
        filled = arguments.fill(candidate.tool, step=step, available=draft.sources(step))
        if filled and not filled[0].missing and _provides_all(candidate.tool, wanted, step):
            task = draft.add(candidate.tool, filled[0], ())
            names = ", ".join(f"'{name}'" for name in missing)
            reason = f"gives {names} to {tool.name}"
            draft.reasons.append(
                TaskReason(
                    task,
                    candidate.tool.name,
                    round(chosen.confidence, 4),
                    (reason, *candidate.reasons),
                )
            )
            return task
    return None


def _producers(draft: Draft, step: Step, tool: ToolRecord, missing: Sequence[str]) -> list[Ranked]:
    query = f"read {' '.join(missing)} {step.query}"
    filters = Filters(
        read_only=True,
        describes_output=True,
        server=tool.server,
        permission_sets=draft.filters.permission_sets,
        without=(*draft.filters.without, tool.name, *draft.names()),
    )
    found = search.search(
        query, limit=_PRODUCERS, filters=filters, text_only=True, cached=draft.cached
    ).found
    before = [edge.from_tool for edge in draft.graph.before(tool.name)]
    ranked = ranking.rank(found, graph=draft.graph, context=draft.names())
    return sorted(ranked, key=lambda item: item.tool.name not in before)


def _provides_all(producer: ToolRecord, wanted: Sequence[Parameter], step: Step) -> bool:
    outputs = [each for each in argument_sources.sources_of_task("producer", producer) if each.name]
    parts = [each for each in outputs if not each.is_whole]
    return all(
        argument_sources.best_source(each, outputs, step, _PRODUCER_FIT)
        if each.is_content
        else argument_sources.best_source(each, parts, step, _PRODUCER_NAME_FIT)
        for each in wanted
    )


def note_nearest(draft: Draft, ranked: Sequence[Ranked]) -> None:
    """Record the three best tools of a step, for a result without a plan."""
    for item in ranked[:3]:
        if all(near.tool != item.tool.name for near in draft.nearest):
            draft.nearest.append(
                NearestTool(item.tool.name, round(item.confidence, 4), item.reasons)
            )


def no_match_warning(draft: Draft, step: Step, ranked: Sequence[Ranked]) -> str:
    """Return the warning for a step without a matching tool."""
    if not draft.graph.names:
        return (
            "The catalogue has no enabled tool. Connect an MCP server in the admin, or import the"
            " Python tools with `manage.py sync_tools`."
        )
    ending = "" if ranked else "; the catalogue has no similar tool"
    return f"No tool fits '{step.text[:200]}' well enough{ending}."


def records_by_task(
    tasks: Mapping[str, Mapping[str, object]], records: Mapping[str, ToolRecord]
) -> dict[str, ToolRecord | None]:
    """Return task id -> record of its tool (None for code), in the plan's order."""
    return {name: records.get(plans.tool_name(task) or "") for name, task in tasks.items()}
