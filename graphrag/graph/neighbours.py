"""Queries for pages: the neighbours of one tool, and the edges learned from one execution."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import F, FloatField, QuerySet
from django.db.models.functions import Cast

from graphrag.graph.svg import Neighbour, Neighbourhood
from graphrag.models import LearnedExecution, Tool, ToolDependency

_SHOWN = 6


def neighbourhood(tool: Tool, href: Callable[[Tool], str]) -> Neighbourhood:
    """Return the strongest edges to and from a tool; ``href`` gives each neighbour's link."""
    before = _strongest(ToolDependency.objects.filter(to_tool=tool), "from_tool")
    after = _strongest(ToolDependency.objects.filter(from_tool=tool), "to_tool")
    return Neighbourhood(
        name=tool.name,
        rank=tool.pagerank,
        before=_neighbours(before, "from_tool", href),
        after=_neighbours(after, "to_tool", href),
        more_before=max(0, before.count() - _SHOWN),
        more_after=max(0, after.count() - _SHOWN),
    )


def _strongest(rows: QuerySet[ToolDependency], other: str) -> QuerySet[ToolDependency]:
    weight = Cast("observed_count", FloatField()) * F("confidence")
    only = ("observed_count", "confidence", f"{other}__name", f"{other}__pagerank")
    return rows.select_related(other).only(*only).order_by(weight.desc(), f"{other}__name")


def _neighbours(
    rows: QuerySet[ToolDependency], other: str, href: Callable[[Tool], str]
) -> tuple[Neighbour, ...]:
    neighbours = []
    for row in rows[:_SHOWN]:
        tool: Tool = getattr(row, other)
        neighbours.append(
            Neighbour(tool.name, row.observed_count, row.confidence, tool.pagerank, href(tool))
        )
    return tuple(neighbours)


@dataclass(frozen=True, slots=True)
class LearnedEdge:
    """An edge after one execution; ``new`` when this execution observed it first."""

    from_tool: str
    to_tool: str
    count: int
    confidence: float

    @property
    def new(self) -> bool:
        """Whether this execution observed the edge first."""
        return self.count == 1


@dataclass(frozen=True, slots=True)
class RankChange:
    """A tool's PageRank before and after, in multiples of the average tool's."""

    tool: str
    before: float
    after: float

    @property
    def change(self) -> float:
        """Relative change of the rank: 0.1 is ten per cent up."""
        return self.after / self.before - 1.0 if self.before else 0.0


@dataclass(frozen=True, slots=True)
class LearnedFrom:
    """Edges, by count, and rank changes, largest first, that came from one execution."""

    at: Any
    edges: tuple[LearnedEdge, ...]
    ranks: tuple[RankChange, ...]


def learned_from(execution_key: str) -> LearnedFrom | None:
    """Return the edges and ranks learned from an execution; None before it was learned."""
    row = LearnedExecution.objects.filter(execution_key=execution_key).first()
    if row is None:
        return None
    edges = [LearnedEdge(*edge) for edge in row.outcome.get("edges", ())]
    ranks = [RankChange(*rank) for rank in row.outcome.get("ranks", ())]
    return LearnedFrom(
        at=row.learned_at,
        edges=tuple(sorted(edges, key=lambda edge: (-edge.count, edge.from_tool, edge.to_tool))),
        ranks=tuple(sorted(ranks, key=lambda rank: (-abs(rank.change), rank.tool))),
    )
