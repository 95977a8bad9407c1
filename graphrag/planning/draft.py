"""A plan under construction: its tasks, and what they may use."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import Any

from graphrag import tokenizer
from graphrag.cache import CacheSnapshot
from graphrag.catalogue.tool_record import ToolRecord, own_name
from graphrag.graph.tool_graph import ToolGraph
from graphrag.planning import argument_sources, plans
from graphrag.planning.argument_sources import Source
from graphrag.planning.arguments import FilledArguments
from graphrag.planning.intents import Step, Vocabulary
from graphrag.retrieval import search
from graphrag.retrieval.search import Filters

Refused = Callable[[Collection[str]], Collection[str]]
"""Names of tools -> the tools of which people refused most of the latest calls."""


def nothing_refused(tools: Collection[str]) -> Collection[str]:
    """Return no tool: nobody has decided about any."""
    return ()


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


@dataclass(frozen=True, slots=True)
class Question:
    """What the planner is unsure of; ``argument`` is empty for the choice of the tool.

    ``is_about_input``: the argument has no source, and a caller can provide it as an input.
    """

    task: str
    tool: str
    argument: str
    text: str
    is_about_input: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tool that matches a step, and the probability that it is right for one."""

    tool: ToolRecord
    confidence: float


@dataclass(frozen=True, slots=True)
class Considered:
    """The tools that were considered for a step, best first, with what speaks for each.

    ``task`` is the id of its task, empty for a step that was left out. ``unused`` are the values of
    the text that no argument has.
    """

    step: Step
    signals: Mapping[str, tuple[float, ...]]
    task: str = ""
    unused: tuple[str, ...] = ()


@dataclass
class Draft:
    """The new tasks of a plan under construction.

    ``earlier`` holds the tasks whose outputs may be used, in order, with their tools; ``carried``
    the arguments that later tasks of a server repeat, by server and name. ``features``
    has the inputs of each task's probability; ``left_out`` counts the steps without a task;
    ``candidates`` are the tools that match a step, by name; ``considered`` lists the steps.
    """

    cached: CacheSnapshot
    given_sources: list[Source]
    max_tasks: int
    filters: Filters = search.EVERYTHING
    refused: Refused = nothing_refused
    earlier: dict[str, ToolRecord | None] = field(default_factory=dict)
    used_ids: set[str] = field(default_factory=set)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    reasons: list[TaskReason] = field(default_factory=list)
    missing_inputs: dict[str, str] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    nearest: list[NearestTool] = field(default_factory=list)
    carried: dict[str, dict[str, Any]] = field(default_factory=dict)
    features: dict[str, tuple[float, ...]] = field(default_factory=dict)
    left_out: int = 0
    candidates: dict[str, Candidate] = field(default_factory=dict)
    considered: list[Considered] = field(default_factory=list)

    @property
    def graph(self) -> ToolGraph:
        """The tool graph as of the start of the draft."""
        return self.cached.graph

    @property
    def remaining(self) -> int:
        """The number of tasks that may still be added."""
        return self.max_tasks - len(self.tasks)

    @cached_property
    def stems_of_servers(self) -> dict[str, frozenset[str]]:
        """The servers of the catalogue with the stems of their names."""
        servers = {name.partition(".")[0] for name in self.graph.names}
        return {server: tokenizer.name_stems(server) for server in servers}

    def servers_in(self, text: str) -> frozenset[str]:
        """Return the servers whose name is in a text."""
        stems = frozenset(tokenizer.stems(text))
        return frozenset(
            server for server, words in self.stems_of_servers.items() if words and words <= stems
        )

    @property
    def server_words(self) -> frozenset[str]:
        """The words of the servers' names, lower case."""
        return frozenset(
            word for server in self.stems_of_servers for word in tokenizer.words(server)
        )

    @property
    def vocabulary(self) -> Vocabulary:
        """The words of the catalogue that matter for the steps of an intent."""
        verbs = self.graph.first_words - self.server_words
        return Vocabulary(self.server_words, verbs, self.cached.idf.counts.keys())

    @property
    def server_before(self) -> str:
        """The server of the last task; empty before the first."""
        records = [record for record in self.earlier.values() if record]
        return records[-1].server if records else ""

    def names(self) -> list[str]:
        """Return the tools of the earlier tasks."""
        return [record.name for record in self.earlier.values() if record]

    def sources(self, step: Step) -> list[Source]:
        """Return the sources for arguments, newer outputs first; MAX_SOURCES outputs at most."""
        outputs = chain.from_iterable(
            argument_sources.sources_of_task(task, record, step.extension)
            for task, record in reversed(self.earlier.items())
        )
        return [*self.given_sources, *islice(outputs, argument_sources.MAX_SOURCES)]

    def add(self, tool: ToolRecord, filled: FilledArguments, after: Collection[str]) -> str:
        """Add a task, and return its id."""
        task_id = plans.fresh_id(own_name(tool), self.used_ids)
        task: dict[str, Any] = {"id": task_id}
        if tool.kind == "capability":
            task |= {"type": "capability", "capability": own_name(tool), "inputs": filled.values}
        else:
            task |= {"type": "tool", "tool": tool.name, "arguments": filled.values}
        depends_on = [name for name in self.earlier if name in filled.uses or name in after]
        if depends_on:
            task["depends_on"] = depends_on
        self.tasks.append(task)
        self.used_ids.add(task_id)
        self.earlier[task_id] = tool
        self.carried.setdefault(tool.server, {}).update(filled.values)
        return task_id

    def is_read_only(self, tasks: Iterable[str]) -> bool:
        """Whether all of these tasks call tools that only read."""
        records = [self.earlier.get(name) for name in tasks]
        return all(record is not None and record.read_only for record in records)
