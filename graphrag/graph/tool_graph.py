"""The tool graph in memory, with PageRank by scipy, cached until the graph changes.

A worker reads the graph once. After executions have been learned, it reads only their edges; after
a change of the catalogue, it reads everything again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from scipy import sparse

from graphrag import tokenizer, versioned_cache
from graphrag.models import LearnedExecution, Tool, ToolDependency
from graphrag.versioned_cache import CacheVersion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ranks = NDArray[np.float64]

DAMPING = 0.85
_TOLERANCE = 1e-6
_MAX_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Edge:
    """``to_tool`` followed ``from_tool`` in ``count`` executions; confidence 0.5 to 1."""

    from_tool: str
    to_tool: str
    count: int
    confidence: float

    @property
    def support(self) -> float:
        """Strength of the edge as evidence, 0 to 1: near 1 if confident and often observed."""
        return self.confidence * (1.0 - 0.5**self.count)


class ToolGraph:
    """Enabled tools and the edges between them, as of one revision."""

    _near: tuple[tuple[str, ...], Ranks] | None = None

    def __init__(self, tools: Sequence[tuple[int, str]], edges: Iterable[Edge]) -> None:
        self.keys = [key for key, _ in tools]
        self.names = [name for _, name in tools]
        self.index = {name: at for at, name in enumerate(self.names)}
        self._next: dict[str, dict[str, Edge]] = {}
        self._previous: dict[str, dict[str, Edge]] = {}
        for edge in edges:
            self._put(edge)

    def _put(self, edge: Edge) -> None:
        self._next.setdefault(edge.from_tool, {})[edge.to_tool] = edge
        self._previous.setdefault(edge.to_tool, {})[edge.from_tool] = edge

    def with_edges(self, edges: Iterable[Edge]) -> ToolGraph:
        """Return a graph of the same tools in which these edges replace their earlier state."""
        new = ToolGraph.__new__(ToolGraph)
        new.keys, new.names, new.index = self.keys, self.names, self.index
        new._next, new._previous = dict(self._next), dict(self._previous)
        gained: list[tuple[Edge, float]] = []
        for edge in edges:
            before = self.edge(edge.from_tool, edge.to_tool)
            gained.append((edge, _weight(edge) - (_weight(before) if before else 0.0)))
            new._next[edge.from_tool] = dict(new._next.get(edge.from_tool, {}))
            new._previous[edge.to_tool] = dict(new._previous.get(edge.to_tool, {}))
            new._put(edge)
        if "_weights" in self.__dict__:
            new.__dict__["_weights"] = self._weights + new._matrix(gained)
        if "first_words" in self.__dict__:
            new.__dict__["first_words"] = self.first_words
        return new

    def edge(self, from_tool: str, to_tool: str) -> Edge | None:
        """Return the edge between two tools, or None."""
        return self._next.get(from_tool, {}).get(to_tool)

    def after(self, name: str) -> list[Edge]:
        """Return the edges from a tool, most often observed first."""
        found = self._next.get(name, {}).values()
        return sorted(found, key=lambda edge: (-edge.count, edge.to_tool))

    def before(self, name: str) -> list[Edge]:
        """Return the edges to a tool, most often observed first."""
        found = self._previous.get(name, {}).values()
        return sorted(found, key=lambda edge: (-edge.count, edge.from_tool))

    @cached_property
    def first_words(self) -> frozenset[str]:
        """The words that begin the names of tools and end none: mostly verbs."""
        listed = [tokenizer.words(name.partition(".")[2]) for name in self.names]
        several = [words for words in listed if len(words) > 1]
        return frozenset(words[0] for words in several) - {words[-1] for words in several}

    def edges(self) -> list[Edge]:
        """Return all edges."""
        return [edge for edges in self._next.values() for edge in edges.values()]

    def networkx(self) -> nx.DiGraph[str]:
        """Convert to networkx; edges have ``count``, ``confidence`` and ``weight``."""
        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(self.names)
        for edge in self.edges():
            graph.add_edge(
                edge.from_tool,
                edge.to_tool,
                count=edge.count,
                confidence=edge.confidence,
                weight=_weight(edge),
            )
        return graph

    def _matrix(self, weighted: Sequence[tuple[Edge, float]]) -> Any:
        rows = [self.index[edge.from_tool] for edge, _ in weighted]
        columns = [self.index[edge.to_tool] for edge, _ in weighted]
        weights = np.array([weight for _, weight in weighted], dtype=np.float64)
        size = len(self.names)
        return sparse.csr_array((weights, (rows, columns)), shape=(size, size))

    @cached_property
    def _weights(self) -> Any:
        return self._matrix([(edge, _weight(edge)) for edge in self.edges()])

    @cached_property
    def _transitions(self) -> tuple[Any, Ranks]:
        """Transposed transition matrix, and a vector with 1 for each tool without successors."""
        size = len(self.names)
        totals = self._weights.sum(axis=1)
        shares = np.divide(1.0, totals, out=np.zeros(size), where=totals > 0)
        scaled = sparse.csr_array(sparse.diags_array(shares) @ self._weights)
        return scaled.T.tocsr(), (totals <= 0).astype(np.float64)

    def pagerank(
        self, restart: Mapping[str, float] | None = None, *, within: float | None = None
    ) -> Ranks:
        """Return the PageRank of every tool, ordered as ``names``, in multiples of the average.

        ``restart`` (tool name -> weight) personalizes it to these tools. Unknown names are ignored;
        without known names the result is the plain PageRank.

        :raises TimeoutError: when it takes longer than ``within`` seconds.
        """
        deadline = None if within is None else time.monotonic() + within
        size = len(self.names)
        if not size:
            return np.zeros(0)
        start = self._start(restart or {})
        matrix, dangling = self._transitions
        ranks = start
        for _ in range(_MAX_ROUNDS):
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"PageRank took longer than {within:g} s")
            lost = float(dangling @ ranks)
            new = DAMPING * (matrix @ ranks + lost * start) + (1.0 - DAMPING) * start
            if float(np.abs(new - ranks).sum()) < _TOLERANCE:
                ranks = new
                break
            ranks = new
        scaled: Ranks = ranks * size
        return scaled

    def _start(self, restart: Mapping[str, float]) -> Ranks:
        start = np.zeros(len(self.names))
        for name, weight in restart.items():
            if name in self.index:
                start[self.index[name]] += weight
        total = float(start.sum())
        return start / total if total > 0 else np.full(len(self.names), 1.0 / len(self.names))

    @cached_property
    def ranks(self) -> Ranks:
        """The plain PageRank, computed once."""
        return self.pagerank()

    def ranks_within(self, seconds: float) -> Ranks:
        """Return ``ranks``.

        :raises TimeoutError: when computing them takes longer than ``seconds``.
        """
        if "ranks" not in vars(self):
            self.ranks = self.pagerank(within=seconds)
        return self.ranks

    def ranks_near(self, names: Sequence[str]) -> Ranks:
        """Return PageRank personalized to these tools; the last result is cached.

        The steps of one plan often ask for equal names. Key: the names; bound: one result.
        """
        key = tuple(names)
        near = self._near
        if near is None or near[0] != key:
            near = self._near = (key, self.pagerank(dict.fromkeys(key, 1.0)))
        return near[1]

    def rank(self, name: str) -> float:
        """Return the PageRank of one tool in multiples of the average; 1 for an unknown tool."""
        at = self.index.get(name)
        return float(self.ranks[at]) if at is not None else 1.0


def _weight(edge: Edge) -> float:
    return edge.count * edge.confidence


@dataclass(frozen=True, slots=True)
class _Cached:
    version: CacheVersion
    graph: ToolGraph


_lock = threading.Lock()
_cached: _Cached | None = None


def current() -> ToolGraph:
    """Return the current graph, cached until its revision changes."""
    return at(versioned_cache.current_versions().get("graph"))


def at(version: CacheVersion | None) -> ToolGraph:
    """Return the graph for a version just read."""
    global _cached
    if version is None:
        return _read()
    with _lock:
        if _cached is None or _cached.version.token != version.token:
            _cached = _Cached(version, _refreshed(_cached, version.number))
        return _cached.graph


def _refreshed(cached: _Cached | None, number: int) -> ToolGraph:
    """Read only new edges when every change since the cached version was learning."""
    if cached is not None and number > cached.version.number:
        before = cached.version
        learned = list(
            LearnedExecution.objects.filter(
                graph_number__gt=before.number, graph_number__lte=number
            )
            .order_by("graph_number")
            .values_list("graph_number", "graph_before", "edges")
        )
        numbers = [at for at, _, _ in learned]
        if numbers == list(range(before.number + 1, number + 1)) and learned[0][1] == before.token:
            pairs = {(pair[0], pair[1]) for _, _, edges in learned for pair in edges}
            return cached.graph.with_edges(_edges(cached.graph, pairs))
    return _read()


def _edges(graph: ToolGraph, pairs: set[tuple[str, str]]) -> list[Edge]:
    rows = ToolDependency.objects.filter(
        from_tool__name__in={first for first, _ in pairs},
        to_tool__name__in={second for _, second in pairs},
    ).values_list("from_tool__name", "to_tool__name", "observed_count", "confidence")
    return [Edge(*row) for row in rows if row[:2] in pairs and set(row[:2]) <= graph.index.keys()]


def _read() -> ToolGraph:
    tools = list(Tool.objects.filter(enabled=True).order_by("pk").values_list("pk", "name"))
    names = dict(tools)
    rows = ToolDependency.objects.order_by().values_list(
        "from_tool_id", "to_tool_id", "observed_count", "confidence"
    )
    return ToolGraph(
        tools,
        (
            Edge(names[first], names[second], count, confidence)
            for first, second, count, confidence in rows.iterator(chunk_size=20_000)
            if first in names and second in names
        ),
    )
