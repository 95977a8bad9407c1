"""What the tool graph costs: replan, suggest, learn, PageRank, search, recall of the index.

Needs a migrated database that may be filled (its tool graph is emptied first). ``rows()`` gives
one dict per figure: name, value, unit, baseline (the bound or the slower way), ratio.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import networkx as nx
from django.conf import settings
from django.db import connection
from django.test import override_settings

from graphrag.catalogue import ingest
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.embedding import embedders
from graphrag.graph import tool_graph
from graphrag.learning import FinishedRun, learn_runs
from graphrag.models import LearnedExecution, Tool, ToolDependency
from graphrag.planning import replanning
from graphrag.planning import services as planning_services
from graphrag.retrieval import idf, search
from tests.support.invented_tools import invented_intents, invented_tools

SIZES = (100, 1_000, 10_000)
EDGES_PER_TOOL = 10
REPLAN_BOUND_MS = {1_000: 30.0, 10_000: 100.0}
LEARN_BOUND_MS = {10_000: 300.0}
SEARCH_BOUND_MS = {10_000: 30.0}
RECALL_BOUND = 0.95

_TOOLS = invented_tools()
_INTENTS = invented_intents()
_FIELDS = """
orders invoices customers products shipments payments metrics logs traces users groups roles
regions sensors recipes patients lessons flights hotels contracts permits parcels bridges songs
films matches players stocks loans claims plants animals soils rivers roads trains stations
""".split()  # noqa: SIM905
_MIX = 7
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds of many calls."""

    median: float
    p95: float


def synthetic(at: int) -> ToolRecord:
    """Tool number ``at``: an invented tool, moved to one of many fields of work."""
    source = _TOOLS[at * _MIX % len(_TOOLS)]
    field = _FIELDS[at // len(_TOOLS) % len(_FIELDS)]
    hints = source.get("annotations") or {}
    return ToolRecord(
        name=f"s{at // 50}.{source['name'][:80]}_{field}_{at}",
        kind="mcp",
        server=f"s{at // 50}",
        description=f"{source['description'][:500]} For {field}.",
        input_schema=source["inputSchema"],
        read_only=bool(hints.get("readOnlyHint")),
    )


def fill(size: int, *, seed: int = 1) -> None:
    """Empty the tool graph, then store ``size`` tools with ten edges each, some tools central.

    Not inside a transaction: it vacuums, as the database does by itself in time.
    """
    rng = random.Random(seed)
    ToolDependency.objects.all().delete()
    LearnedExecution.objects.all().delete()
    Tool.objects.all().delete()
    ingest.upsert_tools([synthetic(at) for at in range(size)])
    keys = list(Tool.objects.order_by("pk").values_list("pk", flat=True))
    pairs: set[tuple[int, int]] = set()
    while len(pairs) < size * min(EDGES_PER_TOOL, size - 1):
        first, second = rng.choice(keys), keys[int(size * rng.random() ** 2)]
        if first != second:
            pairs.add((first, second))
    ToolDependency.objects.bulk_create(
        [
            ToolDependency(from_tool_id=first, to_tool_id=second, observed_count=rng.randint(1, 9))
            for first, second in sorted(pairs)
        ],
        batch_size=5_000,
    )
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE) graphrag_tool, graphrag_tooldependency")
    names = _names()
    learn_runs([FinishedRun(execution_key=f"warm-{seed}", layers=[names[:1], names[1:2]])])


def _names() -> list[str]:
    return tool_graph.current().names


def timed(call: Callable[[Any], object], arguments: Sequence[Any]) -> Timing:
    """Call once for each argument, in three rounds, and give the round of the middle p95.

    The first argument fills caches and is left out. A host that takes a CPU away for a while
    spoils a round; what the calls themselves cost is in all three.
    """
    first, *others = arguments
    call(first)
    rounds = [_round(call, others[at::_ROUNDS]) for at in range(_ROUNDS)]
    return sorted(rounds, key=lambda timing: timing.p95)[_ROUNDS // 2]


def _round(call: Callable[[Any], object], arguments: Sequence[Any]) -> Timing:
    taken = []
    for argument in arguments:
        start = time.perf_counter()
        call(argument)
        taken.append((time.perf_counter() - start) * 1_000)
    taken.sort()
    return Timing(taken[len(taken) // 2], taken[min(len(taken) - 1, int(len(taken) * 0.95))])


def suggest(rounds: int = 181) -> Timing:
    """Suggest a plan for one intent."""
    return timed(lambda intent: planning_services.suggest(intent), _some_intents(rounds))


def find(rounds: int = 181) -> Timing:
    """Search for one intent, with words, letters and vectors."""
    return timed(lambda intent: search.search(intent), _some_intents(rounds))


def find_with_semantic(rounds: int = 181) -> Timing:
    """Search as in ``find``, with the model of the extra ``semantic`` for the query.

    Tools keep their vectors and only rename them: a search takes as long with any vectors.
    """
    before, identity = embedders.current().identity, embedders.SemanticEmbedder.identity
    Tool.objects.filter(embedder=before).update(embedder=identity)
    try:
        with override_settings(HOLDPOINT={**settings.HOLDPOINT, "embedder": "semantic"}):
            return find(rounds)
    finally:
        Tool.objects.filter(embedder=identity).update(embedder=before)


def replan(rounds: int = 181) -> Timing:
    """Replan a running plan of ten tasks, five of them settled."""
    plan, settled = _running_plan()
    return timed(
        lambda intent: replanning.replan(plan, settled, intent, {"path": "data"}),
        _some_intents(rounds),
    )


def _some_intents(rounds: int) -> list[str]:
    rng = random.Random(2)
    return [f"{rng.choice(_INTENTS)} of {rng.choice(_FIELDS)}" for _ in range(rounds)]


def _running_plan() -> tuple[dict[str, Any], list[str]]:
    names = random.Random(3).sample(_names(), 10)
    tasks = [
        {"id": f"t{at}", "type": "tool", "tool": name, "depends_on": [f"t{at - 1}"] if at else []}
        for at, name in enumerate(names)
    ]
    return {"tasks": tasks}, [f"t{at}" for at in range(5)]


def learn(rounds: int = 91) -> Timing:
    """Learn one execution of three layers, PageRank and its storage included."""
    rng = random.Random(4)
    names = _names()
    key = f"bench-{time.time_ns()}"
    runs = [
        FinishedRun(
            execution_key=f"{key}-{at}",
            layers=[rng.sample(names, 2), rng.sample(names, 3), rng.sample(names, 1)],
        )
        for at in range(rounds)
    ]
    return timed(lambda run: learn_runs([run]), runs)


def pagerank(rounds: int = 91) -> tuple[Timing, float]:
    """Personal PageRank from one tool; beside it networkx's own call, once, in milliseconds."""
    present = tool_graph.current()
    ours = timed(lambda name: present.pagerank({name: 1.0}), _names()[:rounds])
    whole = present.networkx()
    start = time.perf_counter()
    nx.pagerank(whole, personalization={_names()[0]: 1.0}, weight="weight")
    return ours, (time.perf_counter() - start) * 1_000


def queries_per_second(rounds: int = 100) -> float:
    """Hybrid searches one after the other."""
    queries = _some_intents(rounds)
    search.search(queries[0])
    start = time.perf_counter()
    for query in queries:
        search.search(query)
    return rounds / (time.perf_counter() - start)


def recall_at_10(rounds: int = 50) -> float:
    """Share of the exact ten nearest that the index finds."""
    frequencies = idf.current()
    exact = found = 0
    for query in _some_intents(rounds):
        truth = _nearest(query, frequencies, index=False)
        exact += len(truth)
        found += len(truth & _nearest(query, frequencies, index=True))
    return found / exact if exact else 1.0


def _nearest(query: str, frequencies: idf.Idf, *, index: bool) -> set[int]:
    use, avoid = ("indexscan", "seqscan") if index else ("seqscan", "indexscan")
    with connection.cursor() as cursor:
        cursor.execute(f"SET enable_{use} = on")
        cursor.execute(f"SET enable_{avoid} = off")
        try:
            return {found.key for found in search.vector_search(query, frequencies, limit=10)}
        finally:
            cursor.execute(f"RESET enable_{use}")
            cursor.execute(f"RESET enable_{avoid}")


def rows(sizes: Sequence[int] = SIZES) -> Iterator[dict[str, Any]]:
    """Fill and measure each size in turn."""
    for size in sizes:
        fill(size)
        yield from measured(size)


def measured(size: int) -> Iterator[dict[str, Any]]:
    """Figures of the tool graph as it is filled now."""
    yield _row(f"replan p95, {size} tools", replan().p95, "ms", REPLAN_BOUND_MS.get(size))
    yield _row(f"suggest p95, {size} tools", suggest().p95, "ms", None)
    ranks, by_networkx = pagerank()
    yield _row(f"PageRank, {size} tools", ranks.median, "ms", by_networkx)
    yield _row(f"search p95, {size} tools", find().p95, "ms", SEARCH_BOUND_MS.get(size))
    yield _row(f"search recall@10, {size} tools", recall_at_10(), "share", RECALL_BOUND)
    yield _row(f"searches per second, {size} tools", queries_per_second(), "1/s", None)
    yield _row(f"learn p95, {size} tools", learn().p95, "ms", LEARN_BOUND_MS.get(size))
    if find_spec(embedders.SEMANTIC_PACKAGE):  # last: it rewrites every row
        semantic = find_with_semantic().p95
        yield _row(f"search p95, semantic, {size} tools", semantic, "ms", SEARCH_BOUND_MS.get(size))


def _row(name: str, value: float, unit: str, baseline: float | None) -> dict[str, Any]:
    ratio = round(value / baseline, 3) if baseline else None
    return {
        "name": name,
        "value": round(value, 3),
        "unit": unit,
        "baseline": baseline,
        "ratio": ratio,
    }
