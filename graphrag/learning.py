"""Learn edges, sequences of tools and PageRank from finished executions, once per execution."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from graphrag import versioned_cache
from graphrag.graph import tool_graph
from graphrag.models import FIRST_CONFIDENCE, LearnedExecution, Tool, ToolSequence
from graphrag.versioned_cache import Change

#: Time limit of PageRank.
RANK_SECONDS = 10.0

#: Time limit of a database statement, waiting for locks included.
STATEMENT_SECONDS = 10.0

_CONFIDENCE_STEP = 0.1
_MIN_RANK_CHANGE = 0.01
#: Tools whose rank one statement stores.
_UPDATED_AT_ONCE = 1000
_CREATE_ROWS = """
INSERT INTO graphrag_learnedexecution (execution_key, tools, edges, outcome, learned_at)
SELECT run.key, run.tools::jsonb, run.edges::jsonb, '{}', now()
FROM unnest(%(keys)s::text[], %(tools)s::text[], %(edges)s::text[]) AS run(key, tools, edges)
ON CONFLICT (execution_key) DO NOTHING
RETURNING execution_key
"""
_UPSERT = """
INSERT INTO graphrag_tooldependency
    (from_tool_id, to_tool_id, observed_count, confidence, first_seen_at, last_seen_at)
SELECT pair.first, pair.second, pair.runs, least(1.0, 0.5 + %(step)s * (pair.runs - 1)),
    now(), now()
FROM unnest(%(first)s::bigint[], %(second)s::bigint[], %(runs)s::int[])
    AS pair(first, second, runs)
ON CONFLICT (from_tool_id, to_tool_id) DO UPDATE SET
    observed_count = graphrag_tooldependency.observed_count + excluded.observed_count,
    confidence = least(1.0, 0.5 + %(step)s
        * (graphrag_tooldependency.observed_count + excluded.observed_count - 1)),
    last_seen_at = now()
RETURNING from_tool_id, to_tool_id, observed_count
"""
_COUNT_SEQUENCES = """
INSERT INTO graphrag_toolsequence (last, before, next, count)
SELECT * FROM unnest(%(last)s::text[], %(before)s::text[], %(next)s::text[], %(count)s::int[])
ON CONFLICT (last, before, next) DO UPDATE SET
    count = graphrag_toolsequence.count + excluded.count
"""
#: Sequences of three tools that one place of a run adds at most; wider layers add pairs only.
_MAX_TRIPLES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A finished execution, as ``learn_runs`` takes it.

    ``layers`` are the tools that ran, layer by layer: every tool of a layer is followed by every
    tool of the next. ``edges`` are further pairs, such as data flow.
    """

    execution_key: str
    layers: Sequence[Collection[str]] = ()
    edges: Iterable[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class _Lesson:
    """What a run teaches: its known tools and their pairs, both sorted."""

    key: str
    layers: Sequence[Collection[str]]
    tools: list[str]
    pairs: list[tuple[str, str]]


def learn_runs(runs: Sequence[FinishedRun]) -> None:
    """Count which tool followed which in finished executions with different keys.

    A pair counts once per execution: observed_count + 1, confidence 0.5 at first and 0.1 more each
    time, at most 1. Predictions also count how often each tool ran, and the tool that ran before
    it. An execution that was learned before changes nothing.

    All executions are counted, or none. Each outcome has the counts that it would have after the
    executions before it; the ranks are those before and after all of them.

    :raises DatabaseError: when a statement takes longer than ``learn_statement_seconds``.
    :raises TimeoutError: when PageRank takes longer than ``learn_rank_seconds``; the edges have
        been counted by then.
    """
    named = [_pairs(run.layers, run.edges) for run in runs]
    with _statement_timeout():
        keys = _tool_keys(runs, named)
        lessons = [_lesson(run, pairs, keys) for run, pairs in zip(runs, named, strict=True)]
        created = _create_rows(lessons)
        new = [lesson for lesson in lessons if lesson.key in created]
        with_pairs = [lesson for lesson in new if lesson.pairs]
        change = versioned_cache.bump("graph", len(with_pairs)) if with_pairs else None
        counted = _count_pairs(new, keys)
        _count_sequences(new, keys)
        _complete_rows(new, counted, change)
    if with_pairs:
        with _statement_timeout():
            _update_ranks(with_pairs)


def _tool_keys(
    runs: Sequence[FinishedRun], named: Sequence[set[tuple[str, str]]]
) -> dict[str, int]:
    """Return name -> key of the tools that the runs name and the catalogue has."""
    names = [_names(run, pairs) for run, pairs in zip(runs, named, strict=True)]
    return dict(Tool.objects.filter(name__in=set().union(*names)).values_list("name", "pk"))


def _names(run: FinishedRun, pairs: set[tuple[str, str]]) -> set[str]:
    return {name for pair in pairs for name in pair} | {n for layer in run.layers for n in layer}


def _lesson(run: FinishedRun, pairs: set[tuple[str, str]], keys: Mapping[str, int]) -> _Lesson:
    named = _names(run, pairs)
    return _Lesson(
        key=run.execution_key,
        layers=run.layers,
        tools=sorted(named & keys.keys()),
        pairs=sorted(pair for pair in pairs if set(pair) <= keys.keys()),
    )


@contextmanager
def _statement_timeout() -> Iterator[None]:
    """Run a transaction in which no statement may take longer than ``learn_statement_seconds``."""
    timeout = f"{max(1, round(STATEMENT_SECONDS * 1000))}ms"
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout')")
        (before,) = cursor.fetchone()
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [timeout])
        yield
        # An outer transaction keeps its own timeout.
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [before])


def _update_ranks(lessons: Sequence[_Lesson]) -> None:
    """Store new ranks; record on each row how the ranks of the execution's tools changed."""
    tools = {name for lesson in lessons for name in lesson.tools}
    before = dict(Tool.objects.filter(name__in=tools).values_list("name", "pagerank"))
    store_ranks()
    graph = tool_graph.current()
    rows = _rows_of(lessons)
    for lesson in lessons:
        rows[lesson.key].outcome["ranks"] = [
            [name, before[name], graph.rank(name)] for name in lesson.tools if name in before
        ]
    LearnedExecution.objects.bulk_update(rows.values(), ["outcome"])


def _rows_of(lessons: Sequence[_Lesson]) -> dict[str, LearnedExecution]:
    """Return the rows of the executions by their keys."""
    keys = [lesson.key for lesson in lessons]
    rows = LearnedExecution.objects.filter(execution_key__in=keys)
    return {row.execution_key: row for row in rows}


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


def _create_rows(lessons: Sequence[_Lesson]) -> set[str]:
    """Create the rows of the executions, not yet complete; return the keys that had none."""
    ordered = sorted(lessons, key=lambda lesson: lesson.key)  # two calls wait in one order
    parameters = {
        "keys": [lesson.key for lesson in ordered],
        "tools": [json.dumps(lesson.tools) for lesson in ordered],
        "edges": [json.dumps(lesson.pairs) for lesson in ordered],
    }
    with connection.cursor() as cursor:
        cursor.execute(_CREATE_ROWS, parameters)
        return {key for (key,) in cursor.fetchall()}


#: From, to, observed count and confidence of a pair after an execution.
_Counted = tuple[str, str, int, float]


def _count_pairs(lessons: Sequence[_Lesson], keys: Mapping[str, int]) -> dict[str, list[_Counted]]:
    """Increment each pair by its executions; return the pairs after each execution, by its key."""
    increments = Counter(pair for lesson in lessons for pair in lesson.pairs)
    counts = _observed(increments, keys)
    counts.subtract(increments)
    counted: dict[str, list[_Counted]] = {}
    for lesson in lessons:
        counts.update(lesson.pairs)
        counted[lesson.key] = [
            (*pair, counts[pair], _confidence(counts[pair])) for pair in lesson.pairs
        ]
    return counted


def _confidence(count: int) -> float:
    return round(min(1.0, FIRST_CONFIDENCE + _CONFIDENCE_STEP * (count - 1)), 9)


def _observed(
    increments: Counter[tuple[str, str]], keys: Mapping[str, int]
) -> Counter[tuple[str, str]]:
    """Add the increments in an order in which concurrent calls do not deadlock; return the sums."""
    if not increments:
        return Counter()
    pairs = sorted(increments)
    parameters: dict[str, Any] = {
        "first": [keys[first] for first, _ in pairs],
        "second": [keys[second] for _, second in pairs],
        "runs": [increments[pair] for pair in pairs],
        "step": _CONFIDENCE_STEP,
    }
    names = {key: name for name, key in keys.items()}
    with connection.cursor() as cursor:
        cursor.execute(_UPSERT, parameters)
        return Counter(
            {(names[first], names[second]): count for first, second, count in cursor.fetchall()}
        )


def _count_sequences(lessons: Sequence[_Lesson], known: Collection[str]) -> None:
    """Add the sequences of known tools, in an order in which concurrent calls do not deadlock."""
    total: Counter[tuple[str, str, str]] = Counter()
    for lesson in lessons:
        total.update(_sequences(lesson.layers, known))
    counts = sorted(total.items())
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


def _complete_rows(
    lessons: Sequence[_Lesson], counted: Mapping[str, Sequence[_Counted]], change: Change | None
) -> None:
    """Store the outcomes, and the revision of the graph that each execution with pairs made."""
    numbers: dict[str, int] = {}
    before: dict[str, UUID | None] = {}
    if change is not None:
        changing = [lesson.key for lesson in lessons if lesson.pairs]
        numbers = {key: change.number + at for at, key in enumerate(changing)}
        before[changing[0]] = change.previous_token  # no process can read the revisions in between
    rows = _rows_of(lessons)
    for lesson in lessons:
        row = rows[lesson.key]
        row.outcome = {"edges": counted[lesson.key]}
        row.graph_number = numbers.get(lesson.key)
        row.graph_before = before.get(lesson.key)
    LearnedExecution.objects.bulk_update(rows.values(), ["outcome", "graph_number", "graph_before"])


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


def store_ranks() -> None:
    """Compute PageRank and store values that moved by more than 1 %."""
    graph = tool_graph.current()
    ranks = graph.ranks_within(RANK_SECONDS).tolist()
    new_rank_of = dict(zip(graph.keys, ranks, strict=True))
    moved = []
    for tool in Tool.objects.filter(pk__in=graph.keys).only("pagerank").order_by("pk"):
        rank = new_rank_of[tool.pk]
        if abs(tool.pagerank - rank) > _MIN_RANK_CHANGE * max(tool.pagerank, rank):
            tool.pagerank = rank
            moved.append(tool)
    Tool.objects.bulk_update(moved, ["pagerank"], batch_size=_UPDATED_AT_ONCE)
