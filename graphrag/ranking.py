"""Rank search results by fit, and by the tools that they followed in past executions."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from graphrag.catalogue.tool_record import ToolRecord
from graphrag.graph.tool_graph import Edge, ToolGraph
from graphrag.retrieval.search import Found

_LOWEST = 0.85
_SPREAD = 0.3
_TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A tool with the reasons for it, strongest first.

    ``confidence`` (0 to 1) is how well the tool matches by words or meaning. Past runs change only
    ``score``, the order: a tool that does not match is not used, however often it followed.
    """

    tool: ToolRecord
    score: float
    confidence: float
    reasons: tuple[str, ...]


def rank(
    found: Sequence[Found], *, graph: ToolGraph, context: Collection[str] = ()
) -> list[Ranked]:
    """Sort by search score and PageRank, best first; PageRank is personalized to ``context``.

    The score is the share of the best search score, times a factor from 0.85 (no edge leads to
    the tool) to 1.15 (every edge does); a tool of average rank keeps its score.
    """
    if not found:
        return []
    known = [name for name in context if name in graph.index]
    ranks = graph.ranks_near(known) if known else graph.ranks
    best = max(item.score for item in found) or 1.0
    ranked = []
    for item in found:
        at = graph.index.get(item.tool.name)
        multiple = float(ranks[at]) if at is not None else 1.0
        edges = edges_from(graph, known, item.tool.name)
        ranked.append(
            Ranked(
                tool=item.tool,
                score=item.score / best * (_LOWEST + _SPREAD * multiple / (1.0 + multiple)),
                confidence=item.similarity,
                reasons=(*match_reasons(item), *edge_reasons(edges)),
            )
        )
    return sorted(ranked, key=lambda item: (-item.score, item.tool.name))


def edges_from(graph: ToolGraph, names: Collection[str], to_tool: str) -> list[Edge]:
    """Return the edges from any of the tools to one, strongest first."""
    edges = (graph.edge(name, to_tool) for name in names)
    return sorted((edge for edge in edges if edge), key=lambda edge: -edge.support)


def edge_reasons(edges: Sequence[Edge]) -> tuple[str, ...]:
    """Describe the two strongest edges: ``often follows git.git_log 12x``."""
    return tuple(
        f"{'often follows' if edge.count > 1 else 'followed'} {edge.from_tool} {edge.count}{_TIMES}"
        for edge in edges[:2]
    )


def match_reasons(found: Found) -> tuple[str, ...]:
    """Return the reasons that come from the search, strongest first."""
    reasons = []
    if found.matched:
        quoted = ", ".join(f"'{word}'" for word in found.matched[:4])
        reasons.append(f"matches {quoted} {found.similarity:.2f}")
    elif found.similarity > 0:
        reasons.append(f"is near in meaning {found.similarity:.2f}")
    if found.tool.can_destroy:
        reasons.append("can destroy data")
    if found.pagerank >= 1.5:
        reasons.append(f"is central in past runs ({found.pagerank:.1f}{_TIMES} the average)")
    return tuple(reasons)
