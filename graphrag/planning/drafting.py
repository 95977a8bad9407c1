"""Turns steps into tasks: chooses a tool for each, fills its arguments, adds what those need."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphrag import ranking
from graphrag.cache import Knowledge
from graphrag.catalogue.tool_record import ToolRecord, own_name
from graphrag.graph.tool_graph import ToolGraph
from graphrag.planning import argument_sources, arguments, plans, schemas
from graphrag.planning.argument_sources import Source
from graphrag.planning.arguments import Filled
from graphrag.planning.intents import Step
from graphrag.ranking import Ranked
from graphrag.retrieval import search
from graphrag.retrieval.search import Filters

_CHOICES = 5
_PRODUCERS = 12
_PRODUCER_FIT = 0.6
_CLEARLY = 0.15
_SURE = 0.7


@dataclass(frozen=True, slots=True)
class TaskReason:
    """Why a task is in a plan. ``confidence`` is 0 to 1."""

    task: str
    tool: str
    confidence: float
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Nearest:
    """A tool that came near without being chosen."""

    tool: str
    similarity: float
    reasons: tuple[str, ...]


@dataclass(slots=True)
class Draft:
    """New tasks while they are put together.

    ``earlier`` holds the tasks that outputs may come from, in order, with their tools.
    """

    known: Knowledge
    given: list[Source]
    most: int
    filters: Filters = search.EVERYTHING
    earlier: dict[str, ToolRecord | None] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    reasons: list[TaskReason] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    nearest: list[Nearest] = field(default_factory=list)

    @property
    def graph(self) -> ToolGraph:
        """What followed what, as of the draft's beginning."""
        return self.known.graph

    @property
    def room(self) -> int:
        """How many more tasks fit."""
        return self.most - len(self.tasks)

    def names(self) -> list[str]:
        """Tools of the tasks that outputs may come from."""
        return [record.name for record in self.earlier.values() if record]

    def sources(self, step: Step) -> list[Source]:
        """Everything arguments may be filled from; newer outputs before older ones."""
        found = list(self.given)
        for task, record in reversed(self.earlier.items()):
            found.extend(argument_sources.of_task(task, record, step.literals.extension))
        return found


def choose(draft: Draft, step: Step) -> list[Ranked]:
    """Tools for a step, best first; what cannot be searched becomes a warning."""
    ranked = _searched(draft, step.query)
    best = ranked[0].confidence if ranked else 0.0
    if step.head == step.query or best >= _SURE:
        return ranked
    # What is looked for ("diffusion models") may say nothing about the tool that looks.
    by_head = _searched(draft, step.head, measured=True)
    return by_head if by_head and by_head[0].confidence > best + _CLEARLY else ranked


def _searched(draft: Draft, query: str, *, measured: bool = False) -> list[Ranked]:
    answer = search.search(
        query, limit=_CHOICES, filters=draft.filters, measured=measured, known=draft.known
    )
    for warning in answer.warnings:
        if warning not in draft.warnings:
            draft.warnings.append(warning)
    return ranking.rank(answer.found, graph=draft.graph, context=draft.names())


def add_step(draft: Draft, step: Step, chosen: Ranked, after: Collection[str] = ()) -> list[str]:
    """Add the tasks for one step and return their ids (none when the draft is full)."""
    filled = arguments.fill(chosen.tool, step=step, available=draft.sources(step), most=draft.room)
    if filled and filled[0].missing and draft.room > 1:
        producer = _add_producer(draft, step, chosen.tool, filled[0].missing)
        if producer:
            filled = arguments.fill(
                chosen.tool, step=step, available=draft.sources(step), most=draft.room
            )
    ids = []
    for one in filled[: max(0, draft.room)]:
        ids.append(_add(draft, chosen.tool, one, after))
        draft.reasons.append(
            TaskReason(ids[-1], chosen.tool.name, round(chosen.confidence, 4), chosen.reasons)
        )
        for name in one.missing:
            draft.missing.setdefault(name, chosen.tool.name)
    return ids


def _add(draft: Draft, tool: ToolRecord, filled: Filled, after: Collection[str]) -> str:
    task_id = plans.fresh_id(own_name(tool), draft.taken)
    task: dict[str, Any] = {"id": task_id}
    if tool.kind == "capability":
        task |= {"type": "capability", "capability": own_name(tool), "inputs": filled.values}
    else:
        task |= {"type": "tool", "tool": tool.name, "arguments": filled.values}
    waits = [name for name in draft.earlier if name in filled.uses or name in after]
    if waits:
        task["depends_on"] = waits
    draft.tasks.append(task)
    draft.taken.add(task_id)
    draft.earlier[task_id] = tool
    return task_id


def _add_producer(draft: Draft, step: Step, tool: ToolRecord, missing: Sequence[str]) -> str | None:
    """Add a reading tool whose output gives what is missing, if one can run with what is there."""
    for candidate in _producers(draft, step, tool, missing):
        filled = arguments.fill(candidate.tool, step=step, available=draft.sources(step))
        if filled and not filled[0].missing and _gives(candidate.tool, tool, missing):
            task = _add(draft, candidate.tool, filled[0], ())
            wanted = ", ".join(f"'{name}'" for name in missing)
            reason = f"gives {wanted} to {tool.name}"
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
        query, limit=_PRODUCERS, filters=filters, by_words=True, known=draft.known
    ).found
    before = [edge.from_tool for edge in draft.graph.before(tool.name)]
    ranked = ranking.rank(found, graph=draft.graph, context=draft.names())
    return sorted(ranked, key=lambda item: item.tool.name not in before)


def _gives(producer: ToolRecord, tool: ToolRecord, missing: Sequence[str]) -> bool:
    outputs = [
        source
        for source in argument_sources.of_task("producer", producer)
        if source.select and schemas.properties_of(producer.output_schema)
    ]
    return all(
        argument_sources.best(name, tool.parameters[name], outputs, _PRODUCER_FIT)
        for name in missing
    )


def note_nearest(draft: Draft, ranked: Sequence[Ranked]) -> None:
    """Keep the names of tools that came near, for an answer that says what there is."""
    for item in ranked[:3]:
        if all(known.tool != item.tool.name for known in draft.nearest):
            draft.nearest.append(Nearest(item.tool.name, round(item.confidence, 4), item.reasons))


def unfit(draft: Draft, step: Step, ranked: Sequence[Ranked]) -> str:
    """The warning for a step that no tool fits."""
    if not draft.graph.names:
        return (
            "The catalogue has no enabled tool: connect an MCP server in the admin, or bring in"
            " the Python tools with `manage.py sync_tools`."
        )
    names = ", ".join(item.tool.name for item in ranked[:3])
    ending = f"; nearest are {names}" if names else "; the catalogue has nothing near"
    return f"No tool fits '{step.text[:200]}' well enough{ending}."


def settled_records(
    tasks: Mapping[str, Mapping[str, Any]], records: Mapping[str, ToolRecord]
) -> dict[str, ToolRecord | None]:
    """Task id -> its tool's record (None for code), in the plan's order."""
    return {name: records.get(plans.tool_name(task) or "") for name, task in tasks.items()}
