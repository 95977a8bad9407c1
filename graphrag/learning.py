"""Learn edges, sequences of tools and PageRank from finished executions, once per execution."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

from django.db import connection, transaction

from graphrag import conf, versioned_cache
from graphrag.graph import tool_graph
from graphrag.models import LearnedExecution, Tool, ToolSequence

_CONFIDENCE_STEP = 0.1
_MIN_RANK_CHANGE = 0.01
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
_COUNT_SEQUENCES = """
INSERT INTO graphrag_toolsequence (last, before, next, count)
SELECT * FROM unnest(%(last)s::text[], %(before)s::text[], %(next)s::text[], %(count)s::int[])
ON CONFLICT (last, before, next) DO UPDATE SET
    count = graphrag_toolsequence.count + excluded.count
"""
#: Sequences of three tools that one place of a run adds at most; wider layers add pairs only.
_MAX_TRIPLES = 1000
_STORE_RANKS = """
UPDATE graphrag_tool t SET pagerank = new.rank
FROM unnest(%(keys)s::bigint[], %(ranks)s::float8[]) AS new(key, rank)
WHERE t.id = new.key AND abs(t.pagerank - new.rank) > %(moved)s * greatest(t.pagerank, new.rank)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The result of ``learn``. ``known`` is True when the execution had been learned before."""

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
    """Count which tool followed which in one finished execution.

    ``layers`` are the tools that ran, layer by layer: every tool of a layer is followed by every
    tool of the next. ``edges`` are further pairs, such as data flow. A pair counts once
    per execution: observed_count + 1, confidence 0.5 at first and 0.1 more each time, at most 1.
    Predictions also count how often each tool ran, and the tool that ran before it. A second call
    with the same key changes nothing.

    :raises DatabaseError: when a statement takes longer than ``learn_statement_seconds``.
    :raises TimeoutError: when PageRank takes longer than ``learn_rank_seconds``; the edges have
        been counted by then.
    """
    pairs = _pairs(layers, edges)
    named = {name for pair in pairs for name in pair} | {n for layer in layers for n in layer}
    with _statement_timeout():
        keys = dict(Tool.objects.filter(name__in=named).values_list("name", "pk"))
        known = sorted(pair for pair in pairs if set(pair) <= keys.keys())
        tools = sorted(named & keys.keys())
        row = _create_row(execution_key, tools, known)
        if row is None:
            return Learned(known=True)
        counted = _count_pairs(known, keys)
        _count_sequences(layers, keys)
        row.outcome = {"edges": counted}
        row.save(update_fields=["outcome", "graph_number", "graph_before"])
    moved = 0
    if known:
        with _statement_timeout():
            moved = _update_ranks(row, tools)
    created = sum(count == 1 for _, _, count, _ in counted)
    return Learned(
        edges_created=created,
        edges_strengthened=len(counted) - created,
        edges=tuple(known),
        unknown_tools=tuple(sorted(named - keys.keys())),
        ranks_moved=moved,
    )


@contextmanager
def _statement_timeout() -> Iterator[None]:
    """Run a transaction in which no statement may take longer than ``learn_statement_seconds``."""
    timeout = f"{max(1, round(conf.learn_statement_seconds() * 1000))}ms"
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout')")
        (before,) = cursor.fetchone()
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [timeout])
        yield
        # An outer transaction keeps its own timeout.
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [before])


def _update_ranks(row: LearnedExecution, tools: Sequence[str]) -> int:
    """Store new ranks; record on the row how the ranks of the execution's tools changed."""
    before = dict(Tool.objects.filter(name__in=tools).values_list("name", "pagerank"))
    changed_count = store_ranks()
    graph = tool_graph.current()
    ranks = [[name, before[name], graph.rank(name)] for name in tools if name in before]
    row.outcome["ranks"] = ranks
    row.save(update_fields=["outcome"])
    return changed_count


def learned_keys(keys: Collection[str]) -> set[str]:
    """Return the keys of the executions that have been learned."""
    rows = LearnedExecution.objects.filter(execution_key__in=list(keys))
    return set(rows.values_list("execution_key", flat=True))


def _pairs(
    layers: Sequence[Collection[str]], edges: Iterable[tuple[str, str]]
) -> set[tuple[str, str]]:
    steps = [layer for layer in layers if layer]
    found = {pair for first, second in pairwise(steps) for pair in product(first, second)}
    found.update((first, second) for first, second in edges)
    return {(first, second) for first, second in found if first != second}


def _create_row(
    execution_key: str, tools: list[str], pairs: list[tuple[str, str]]
) -> LearnedExecution | None:
    """Return the new row of this execution, not yet complete; None when it has a row already."""
    row, created = LearnedExecution.objects.get_or_create(
        execution_key=execution_key, defaults={"tools": tools, "edges": pairs}
    )
    if created and pairs:
        change = versioned_cache.bump("graph")
        row.graph_number, row.graph_before = change.number, change.previous_token
    return row if created else None


def _count_pairs(
    pairs: Sequence[tuple[str, str]], keys: Mapping[str, int]
) -> list[tuple[str, str, int, float]]:
    """Increment each pair; return (from, to, observed count, confidence) after the increment."""
    if not pairs:
        return []
    parameters: dict[str, Any] = {
        "first": [keys[first] for first, _ in pairs],
        "second": [keys[second] for _, second in pairs],
        "step": _CONFIDENCE_STEP,
    }
    names = {key: name for name, key in keys.items()}
    with connection.cursor() as cursor:
        cursor.execute(_UPSERT, parameters)
        return sorted(
            (names[first], names[second], count, confidence)
            for first, second, count, confidence in cursor.fetchall()
        )


def _count_sequences(layers: Sequence[Collection[str]], known: Collection[str]) -> None:
    """Add the sequences of known tools, in an order in which concurrent calls do not deadlock."""
    counts = sorted(_sequences(layers, known).items())
    if not counts:
        return
    last, before, following = zip(*(names for names, _ in counts), strict=True)
    with connection.cursor() as cursor:
        cursor.execute(
            _COUNT_SEQUENCES,
            {
                "last": list(last),
                "before": list(before),
                "next": list(following),
                "count": [count for _, count in counts],
            },
        )


def _sequences(
    layers: Sequence[Collection[str]], known: Collection[str]
) -> Counter[tuple[str, str, str]]:
    """Return counts of (last, before, next), with the marks that ToolSequence explains."""
    steps = [sorted({*layer}) for layer in layers if layer]
    counts: Counter[tuple[str, str, str]] = Counter()
    for at, step in enumerate(steps):
        earlier = steps[at - 1] if at else [ToolSequence.START]
        following = steps[at + 1] if at + 1 < len(steps) else []
        if len(earlier) * len(step) * max(1, len(following)) > _MAX_TRIPLES:
            earlier = []
        counts.update(product(step, ["", *earlier], ["", *following]))
    marks = ("", ToolSequence.START)
    return Counter(
        {
            names: count
            for names, count in counts.items()
            if all(name in known or name in marks for name in names)
        }
    )


def store_ranks() -> int:
    """Compute PageRank and store values that moved by more than 1 %; return how many did."""
    graph = tool_graph.current()
    parameters: dict[str, Any] = {
        "keys": graph.keys,
        "ranks": graph.ranks_within(conf.learn_rank_seconds()).tolist(),
        "moved": _MIN_RANK_CHANGE,
    }
    with connection.cursor() as cursor:
        cursor.execute(_STORE_RANKS, parameters)
        return int(cursor.rowcount)
