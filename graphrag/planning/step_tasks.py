"""Turn steps into tasks: choose a tool, fill its arguments, add tasks that produce missing ones."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphrag import ranking
from graphrag.cache import CacheSnapshot
from graphrag.catalogue.tool_record import ToolRecord, own_name
from graphrag.graph.tool_graph import ToolGraph
from graphrag.planning import argument_sources, arguments, plans, schemas
from graphrag.planning.argument_sources import Source
from graphrag.planning.arguments import FilledArguments
from graphrag.planning.intents import Step
from graphrag.ranking import Ranked
from graphrag.retrieval import search
from graphrag.retrieval.search import Filters

_CHOICES = 5
_PRODUCERS = 12
_PRODUCER_FIT = 0.6
_CLEAR_MARGIN = 0.15
_CONFIDENT = 0.7


@dataclass(frozen=True, slots=True)
class TaskReason:
    """The reasons for a task of a plan. ``confidence`` is 0 to 1."""

    task: str
    tool: str
    confidence: float
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NearestTool:
    """A tool that matched a step and was not chosen."""

    tool: str
    similarity: float
    reasons: tuple[str, ...]


@dataclass(slots=True)
class Draft:
    """The new tasks of a plan under construction.

    ``earlier`` holds the tasks whose outputs may be used, in order, with their tools.
    """

    cached: CacheSnapshot
    given_sources: list[Source]
    max_tasks: int
    filters: Filters = search.EVERYTHING
    earlier: dict[str, ToolRecord | None] = field(default_factory=dict)
    used_ids: set[str] = field(default_factory=set)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    reasons: list[TaskReason] = field(default_factory=list)
    missing_inputs: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    nearest: list[NearestTool] = field(default_factory=list)

    @property
    def graph(self) -> ToolGraph:
        """The tool graph as of the start of the draft."""
        return self.cached.graph

    @property
    def remaining(self) -> int:
        """The number of tasks that may still be added."""
        return self.max_tasks - len(self.tasks)

    def names(self) -> list[str]:
        """Return the tools of the earlier tasks."""
        return [record.name for record in self.earlier.values() if record]

    def sources(self, step: Step) -> list[Source]:
        """Return all sources for arguments, newer outputs first."""
        found = list(self.given_sources)
        for task, record in reversed(self.earlier.items()):
            found.extend(argument_sources.sources_of_task(task, record, step.literals.extension))
        return found


def rank_tools(draft: Draft, step: Step) -> list[Ranked]:
    """Return tools for a step, best first; a failed search becomes a warning."""
    ranked = _searched(draft, step.query)
    best = ranked[0].confidence if ranked else 0.0
    if step.head == step.query or best >= _CONFIDENT:
        return ranked
    # The object of a search ("diffusion models") need not occur in the text of the tool.
    by_head = _searched(draft, step.head, with_cosines=True)
    return by_head if by_head and by_head[0].confidence > best + _CLEAR_MARGIN else ranked


def _searched(draft: Draft, query: str, *, with_cosines: bool = False) -> list[Ranked]:
    answer = search.search(
        query, limit=_CHOICES, filters=draft.filters, with_cosines=with_cosines, cached=draft.cached
    )
    for warning in answer.warnings:
        if warning not in draft.warnings:
            draft.warnings.append(warning)
    return ranking.rank(answer.found, graph=draft.graph, context=draft.names())


def add_step(draft: Draft, step: Step, chosen: Ranked, after: Collection[str] = ()) -> list[str]:
    """Add the tasks for one step and return their ids; none when the draft is full."""
    filled = arguments.fill(
        chosen.tool, step=step, available=draft.sources(step), most=draft.remaining
    )
    if filled and filled[0].missing and draft.remaining > 1:
        producer = _add_producer(draft, step, chosen.tool, filled[0].missing)
        if producer:
            filled = arguments.fill(
                chosen.tool, step=step, available=draft.sources(step), most=draft.remaining
            )
    ids = []
    for one in filled[: max(0, draft.remaining)]:
        ids.append(_add(draft, chosen.tool, one, after))
        draft.reasons.append(
            TaskReason(ids[-1], chosen.tool.name, round(chosen.confidence, 4), chosen.reasons)
        )
        for name in one.missing:
            draft.missing_inputs.setdefault(name, chosen.tool.name)
    return ids


def _add(draft: Draft, tool: ToolRecord, filled: FilledArguments, after: Collection[str]) -> str:
    task_id = plans.fresh_id(own_name(tool), draft.used_ids)
    task: dict[str, Any] = {"id": task_id}
    if tool.kind == "capability":
        task |= {"type": "capability", "capability": own_name(tool), "inputs": filled.values}
    else:
        task |= {"type": "tool", "tool": tool.name, "arguments": filled.values}
    depends_on = [name for name in draft.earlier if name in filled.uses or name in after]
    if depends_on:
        task["depends_on"] = depends_on
    draft.tasks.append(task)
    draft.used_ids.add(task_id)
    draft.earlier[task_id] = tool
    return task_id


def _add_producer(draft: Draft, step: Step, tool: ToolRecord, missing: Sequence[str]) -> str | None:
    """Add a read-only tool whose output provides the missing arguments, if one can run now."""
    for candidate in _producers(draft, step, tool, missing):
        filled = arguments.fill(candidate.tool, step=step, available=draft.sources(step))
        if filled and not filled[0].missing and _provides_all(candidate.tool, tool, missing):
            task = _add(draft, candidate.tool, filled[0], ())
            names = ", ".join(f"'{name}'" for name in missing)
            reason = f"gives {names} to {tool.name}"
            draft.reasons.append(
                TaskReason(
                    task,
                    candidate.tool.name,
                    round(candidate.confidence, 4),
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
        permission_sets=draft.filters.permission_sets,
        without=(*draft.filters.without, tool.name, *draft.names()),
    )
    found = search.search(
        query, limit=_PRODUCERS, filters=filters, text_only=True, cached=draft.cached
    ).found
    before = [edge.from_tool for edge in draft.graph.before(tool.name)]
    ranked = ranking.rank(found, graph=draft.graph, context=draft.names())
    return sorted(ranked, key=lambda item: item.tool.name not in before)


def _provides_all(producer: ToolRecord, tool: ToolRecord, missing: Sequence[str]) -> bool:
    outputs = [
        source
        for source in argument_sources.sources_of_task("producer", producer)
        if source.select and schemas.properties_of(producer.output_schema)
    ]
    return all(
        argument_sources.best_source(name, tool.parameters[name], outputs, _PRODUCER_FIT)
        for name in missing
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
    names = ", ".join(item.tool.name for item in ranked[:3])
    ending = f"; the nearest are {names}" if names else "; the catalogue has no similar tool"
    return f"No tool fits '{step.text[:200]}' well enough{ending}."


def records_by_task(
    tasks: Mapping[str, Mapping[str, Any]], records: Mapping[str, ToolRecord]
) -> dict[str, ToolRecord | None]:
    """Return task id -> record of its tool (None for code), in the plan's order."""
    return {name: records.get(plans.tool_name(task) or "") for name, task in tasks.items()}
