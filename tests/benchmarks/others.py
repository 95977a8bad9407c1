"""The benchmarks of the sandbox and of the tool graph, as figures of this table."""

from __future__ import annotations

from tests.benchmarks import graphrag_bench, sandbox_bench
from tests.benchmarks.figures import Figure
from tests.benchmarks.surroundings import Bench


def sandbox(bench: Bench) -> list[Figure]:
    """What it costs to begin a program."""
    rounds = bench.rounds(30, 5)
    costs = sandbox_bench.measure(rounds)
    return [
        Figure("Python task in the sandbox", costs.python_task, "ms", rounds,
               target=sandbox_bench.PYTHON_BOUND_MS),
        Figure("TypeScript task in the sandbox", costs.typescript_task, "ms", rounds,
               costs.bare_deno, "bare deno run", sandbox_bench.DENO_BOUND_RATIO),
    ]  # fmt: skip


def graph(bench: Bench) -> list[Figure]:
    """What planning from the tool graph costs, by its size.

    Times and shares are held against bounds, PageRank against networkx.
    """
    sizes = graphrag_bench.SIZES[:1] if bench.quick else graphrag_bench.SIZES
    figures = []
    for row in graphrag_bench.rows(sizes):
        bound, unit = row["baseline"], row["unit"]
        slower_way = row["name"].startswith("PageRank")
        figures.append(
            Figure(row["name"], row["value"], unit, 1,
                   bound if slower_way else None,
                   "networkx" if slower_way else "",
                   1.0 if slower_way else bound,
                   "at least" if unit == "share" else "at most")
        )  # fmt: skip
    return figures
