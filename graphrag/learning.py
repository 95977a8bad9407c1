"""Learning from finished executions: edges, their weights, PageRank. Idempotent by execution."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

from django.db import connection, transaction

from graphrag import conf, versioned_cache
from graphrag.graph import tool_graph
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
RETURNING from_tool_id, to_tool_id, observed_count, confidence
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

    Raises DatabaseError when a statement takes longer than ``learn_statement_seconds``, and
    TimeoutError when PageRank takes longer than ``learn_rank_seconds``: the edges are counted then.
    """
    pairs = _pairs(layers, edges)
    named = {name for pair in pairs for name in pair} | {n for layer in layers for n in layer}
    with _timed():
        keys = dict(Tool.objects.filter(name__in=named).values_list("name", "pk"))
        known = sorted(pair for pair in pairs if set(pair) <= keys.keys())
        tools = sorted(named & keys.keys())
        row = _first_time(execution_key, tools, known)
        if row is None:
            return Learned(known=True)
        counted = _count(known, keys)
        row.outcome = {"edges": counted}
        row.save(update_fields=["outcome", "graph_number", "graph_before"])
    moved = 0
    if known:
        with _timed():
            moved = _rank(row, tools)
    created = sum(count == 1 for _, _, count, _ in counted)
    return Learned(
        edges_created=created,
        edges_strengthened=len(counted) - created,
        edges=tuple(known),
        unknown_tools=tuple(sorted(named - keys.keys())),
        ranks_moved=moved,
    )


@contextmanager
def _timed() -> Iterator[None]:
    """A transaction none of whose statements may take longer than the setting says."""
    most = f"{max(1, round(conf.learn_statement_seconds() * 1000))}ms"
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout')")
        (before,) = cursor.fetchone()
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [most])
        yield
        # A transaction around this one goes on as it was.
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [before])


def _rank(row: LearnedExecution, tools: Sequence[str]) -> int:
    """Store new ranks; keep on the row what became of the ranks of the execution's own tools."""
    before = dict(Tool.objects.filter(name__in=tools).values_list("name", "pagerank"))
    moved = store_ranks()
    present = tool_graph.current()
    ranks = [[name, before[name], present.rank(name)] for name in tools if name in before]
    row.outcome["ranks"] = ranks
    row.save(update_fields=["outcome"])
    return moved


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


def _first_time(
    execution_key: str, tools: list[str], pairs: list[tuple[str, str]]
) -> LearnedExecution | None:
    """The new row of this execution, to be saved; None when there is one already."""
    row, created = LearnedExecution.objects.get_or_create(
        execution_key=execution_key, defaults={"tools": tools, "edges": pairs}
    )
    if created and pairs:
        change = versioned_cache.bump("graph")
        row.graph_number, row.graph_before = change.number, change.before
    return row if created else None


def _count(
    pairs: Sequence[tuple[str, str]], keys: Mapping[str, int]
) -> list[tuple[str, str, int, float]]:
    """Count each pair once more: (from, to, observed count, confidence), as they are now."""
    if not pairs:
        return []
    parameters: dict[str, Any] = {
        "first": [keys[first] for first, _ in pairs],
        "second": [keys[second] for _, second in pairs],
        "step": _STEP,
    }
    names = {key: name for name, key in keys.items()}
    with connection.cursor() as cursor:
        cursor.execute(_UPSERT, parameters)
        return sorted(
            (names[first], names[second], count, confidence)
            for first, second, count, confidence in cursor.fetchall()
        )


def store_ranks() -> int:
    """Work out PageRank and store it where it moved by more than 1 %; returns how many moved."""
    present = tool_graph.current()
    parameters: dict[str, Any] = {
        "keys": present.keys,
        "ranks": present.ranks_within(conf.learn_rank_seconds()).tolist(),
        "moved": _MOVED,
    }
    with connection.cursor() as cursor:
        cursor.execute(_STORE_RANKS, parameters)
        return int(cursor.rowcount)
