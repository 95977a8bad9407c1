"""Learning from finished executions: edges, their weights, PageRank. Idempotent by execution."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

from django.db import connection, transaction

from graphrag import graph, revisions
from graphrag.models import LearnedExecution, Tool

_STEP = 0.1
_MOVED = 0.01
_UPSERT = """
INSERT INTO graphrag_tooldependency
    (from_tool_id, to_tool_id, observed_count, confidence, first_seen_at, last_seen_at)
SELECT pair.first, pair.second, 1, 0.5, now(), now()
FROM unnest(%(first)s::bigint[], %(second)s::bigint[]) AS pair(first, second)
ON CONFLICT (from_tool_id, to_tool_id) DO UPDATE SET
    observed_count = graphrag_tooldependency.observed_count + 1,
    confidence = least(1.0, 0.5 + %(step)s * graphrag_tooldependency.observed_count),
    last_seen_at = now()
RETURNING observed_count
"""
_STORE_RANKS = """
UPDATE graphrag_tool t SET pagerank = new.rank
FROM unnest(%(keys)s::bigint[], %(ranks)s::float8[]) AS new(key, rank)
WHERE t.id = new.key AND abs(t.pagerank - new.rank) > %(moved)s * greatest(t.pagerank, new.rank)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What one execution taught. ``known`` is True when it had been learned before."""

    known: bool = False
    edges_created: int = 0
    edges_strengthened: int = 0
    edges: tuple[tuple[str, str], ...] = ()
    unknown_tools: tuple[str, ...] = ()
    ranks_moved: int = 0


def learn(
    *,
    execution_key: str,
    layers: Sequence[Collection[str]] = (),
    edges: Iterable[tuple[str, str]] = (),
) -> Learned:
    """Count what followed what in one finished execution.

    ``layers`` are the tools that really ran, layer by layer: every tool of a layer is followed by
    every tool of the next. ``edges`` are further pairs, such as real data flow. A pair counts once
    per execution: observed_count + 1, confidence 0.5 at first and 0.1 more each time, at most 1.
    A second call with the same key changes nothing.
    """
    pairs = _pairs(layers, edges)
    named = {name for pair in pairs for name in pair} | {n for layer in layers for n in layer}
    keys = dict(Tool.objects.filter(name__in=named).values_list("name", "pk"))
    known = sorted(pair for pair in pairs if set(pair) <= keys.keys())
    with transaction.atomic():
        if not _first_time(execution_key, sorted(named & keys.keys()), known):
            return Learned(known=True)
        counts = _count([(keys[first], keys[second]) for first, second in known])
    return Learned(
        edges_created=counts.count(1),
        edges_strengthened=len(counts) - counts.count(1),
        edges=tuple(known),
        unknown_tools=tuple(sorted(named - keys.keys())),
        ranks_moved=store_ranks() if known else 0,
    )


def learned_keys(keys: Collection[str]) -> set[str]:
    """Which of these executions have been learned from."""
    rows = LearnedExecution.objects.filter(execution_key__in=list(keys))
    return set(rows.values_list("execution_key", flat=True))


def _pairs(
    layers: Sequence[Collection[str]], edges: Iterable[tuple[str, str]]
) -> set[tuple[str, str]]:
    steps = [layer for layer in layers if layer]
    found = {pair for first, second in pairwise(steps) for pair in product(first, second)}
    found.update((first, second) for first, second in edges)
    return {(first, second) for first, second in found if first != second}


def _first_time(execution_key: str, tools: list[str], pairs: list[tuple[str, str]]) -> bool:
    row, created = LearnedExecution.objects.get_or_create(
        execution_key=execution_key, defaults={"tools": tools, "edges": pairs}
    )
    if created and pairs:
        change = revisions.bump("graph")
        row.graph_number, row.graph_before = change.number, change.before
        row.save(update_fields=["graph_number", "graph_before"])
    return created


def _count(pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Observed counts after counting each pair once more."""
    if not pairs:
        return []
    parameters: dict[str, Any] = {
        "first": [first for first, _ in pairs],
        "second": [second for _, second in pairs],
        "step": _STEP,
    }
    with connection.cursor() as cursor:
        cursor.execute(_UPSERT, parameters)
        return [count for (count,) in cursor.fetchall()]


def store_ranks() -> int:
    """Work out PageRank and store it where it moved by more than 1 %; returns how many moved."""
    present = graph.current()
    parameters: dict[str, Any] = {
        "keys": present.keys,
        "ranks": present.ranks.tolist(),
        "moved": _MOVED,
    }
    with connection.cursor() as cursor:
        cursor.execute(_STORE_RANKS, parameters)
        return int(cursor.rowcount)
