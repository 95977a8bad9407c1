"""Reads for people: the graph around one tool, and what one execution taught."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import F, FloatField, QuerySet
from django.db.models.functions import Cast

from graphrag.graph.svg import Around, Neighbour
from graphrag.models import LearnedExecution, Tool, ToolDependency

_SHOWN = 6


def around(tool: Tool, href: Callable[[Tool], str]) -> Around:
    """The strongest edges that lead to and from a tool; ``href`` gives each neighbour's link."""
    before = _strongest(ToolDependency.objects.filter(to_tool=tool), "from_tool")
    after = _strongest(ToolDependency.objects.filter(from_tool=tool), "to_tool")
    return Around(
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
    found = []
    for row in rows[:_SHOWN]:
        tool: Tool = getattr(row, other)
        found.append(
            Neighbour(tool.name, row.observed_count, row.confidence, tool.pagerank, href(tool))
        )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class TaughtEdge:
    """An edge as one execution left it; ``new`` when it had never been observed before."""

    from_tool: str
    to_tool: str
    count: int
    confidence: float

    @property
    def new(self) -> bool:
        """Whether this execution was the first to show it."""
        return self.count == 1


@dataclass(frozen=True, slots=True)
class MovedRank:
    """A tool's PageRank before and after, in multiples of the average tool's."""

    tool: str
    before: float
    after: float

    @property
    def change(self) -> float:
        """Share of the earlier rank by which it moved: 0.1 is ten per cent up."""
        return self.after / self.before - 1.0 if self.before else 0.0


@dataclass(frozen=True, slots=True)
class Taught:
    """What one execution taught; edges by count, ranks by how far they moved."""

    at: Any
    edges: tuple[TaughtEdge, ...]
    ranks: tuple[MovedRank, ...]


def taught_by(execution_key: str) -> Taught | None:
    """What the graph took from an execution, as of then; None before it has learned."""
    row = LearnedExecution.objects.filter(execution_key=execution_key).first()
    if row is None:
        return None
    edges = [TaughtEdge(*edge) for edge in row.outcome.get("edges", ())]
    ranks = [MovedRank(*rank) for rank in row.outcome.get("ranks", ())]
    return Taught(
        at=row.learned_at,
        edges=tuple(sorted(edges, key=lambda edge: (-edge.count, edge.from_tool, edge.to_tool))),
        ranks=tuple(sorted(ranks, key=lambda rank: (-abs(rank.change), rank.tool))),
    )
