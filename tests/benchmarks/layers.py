"""What a layer costs: ours, the bare floor and LangGraph in turns, in the same weather."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.benchmarks import bare, kit, peer
from tests.benchmarks.figures import Figure, middle
from tests.benchmarks.surroundings import Bench, start_quietly
from workflows.executions import dispatch, jobs

LAYERS, WIDTH = 20, 5
_runs = itertools.count(1)


def measure(bench: Bench) -> list[Figure]:
    bench.need_worker()
    bench.need_bare_worker()
    with _langgraph(bench) as graphs:
        ways: dict[str, Callable[[], float]] = {
            "worker": lambda: in_worker(bench),
            "writes": lambda: in_worker(bench, "write"),
            "process": in_process,
            "bare": lambda: in_bare_worker(bench),
            "commit": bare_commit,
            **graphs,
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(bench.rounds(25, 6) + 2):
            for name, way in ways.items():
                took = way() * 1000
                if turn >= 2:  # the first turns warm connections, plans and code up
                    times[name].append(took)
    return _figures(times)


def _figures(times: dict[str, list[float]]) -> list[Figure]:
    per_layer = {
        name: middle(found) / (1 if name == "commit" else LAYERS) for name, found in times.items()
    }
    n = len(times["worker"])
    ours, floor = per_layer["worker"], per_layer["bare"]
    figures = [
        Figure("layer of 5 tasks, in a worker", ours, "ms", n, floor, "bare floor", 3.0),
        Figure("the same of tasks that write", per_layer["writes"], "ms", n, floor, "bare floor"),
        Figure("layer, engine, in process", per_layer["process"], "ms", n, floor,
               "bare floor"),
        Figure("layer, bare: 7 pipelined statements", floor, "ms", n, per_layer["commit"],
               "bare commit"),
        Figure("commit of one row, bare", per_layer["commit"], "ms", n),
    ]  # fmt: skip
    for name, value in per_layer.items():
        if name.startswith("LangGraph"):
            target = 0.5 if name.endswith("sync") and "async" not in name else None
            figures.insert(
                1, Figure("layer of 5 tasks, in a worker", ours, "ms", n, value, name, target)
            )
    return figures


def in_worker(bench: Bench, kind: str = "noop") -> float:
    """Seconds from sending for a worker to the end of the run: one job, all layers."""
    execution_id = start_quietly(kit.grid(LAYERS, WIDTH, kind))
    bench.forget_reports()
    sent = time.monotonic()
    dispatch.enqueue(kit.ADVANCE, execution_id)
    return float(bench.told_by(str(execution_id))["at"]) - sent


def in_process() -> float:
    """Seconds of the engine alone, without a queue."""
    execution_id = start_quietly(kit.grid(LAYERS, WIDTH))
    begun = time.perf_counter()
    jobs.run_to_rest(execution_id)
    return time.perf_counter() - begun


def in_bare_worker(bench: Bench) -> float:
    """The same work as bare SQL in one job of a bare worker."""
    run = next(_runs)
    bare.prepare(run)
    bench.forget_reports()
    sent = time.monotonic()
    bare.queue().enqueue_call("tests.benchmarks.bare.run_layers", args=(run, LAYERS, WIDTH))
    return float(bench.told_by(f"bare-{run}")["at"]) - sent


def bare_commit(times: int = 30) -> float:
    """Seconds of one durable commit of one row: the median of a few."""
    run = next(_runs)
    bare.prepare(run)
    found = []
    for version in range(1, times + 1):
        begun = time.perf_counter()
        bare.commit_row(run, version)
        found.append(time.perf_counter() - begun)
    return middle(found)


@contextmanager
def _langgraph(bench: Bench) -> Iterator[dict[str, Callable[[], float]]]:
    if not peer.installed():
        yield {}
        return
    with peer.saver(bench.conninfo) as checkpointer:
        graph = peer.grid(checkpointer, LAYERS, WIDTH)

        def way(durability: str) -> Callable[[], float]:
            return lambda: peer.run(graph, peer.thread(), durability)

        yield {f"LangGraph {each}": way(each) for each in ("exit", "async", "sync")}
