"""Many small runs at once with two workers, beside LangGraph in two processes; memory of both.

Time runs from the first job sent to the last run ended.  The runs are started before (see `start`
in answers): that is work of the web process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import psutil

from tests.benchmarks import kit, peer
from tests.benchmarks.figures import Figure, middle
from tests.benchmarks.surroundings import ROOT, Bench, start_quietly
from workflows.executions import dispatch
from workflows.models import Execution

LAYERS, WIDTH = 3, 3
MIB = 1024 * 1024


def measure(bench: Bench) -> list[Figure]:
    count, turns = (500, 3) if not bench.quick else (120, 2)
    ours: list[float] = []
    peers: dict[str, list[float]] = {}
    memory: dict[str, float] = {}
    with bench.second_worker() as pids:
        run_all(bench, 40)
        for _ in range(turns):
            ours.append(run_all(bench, count))
            for durability in (*peer.DURABLE, "exit") if peer.installed() else ():
                rate, memory["peer"] = langgraph(count, durability)
                peers.setdefault(durability, []).append(rate)
        memory["ours"] = max(psutil.Process(pid).memory_info().rss for pid in pids) / MIB
    memory["bare"] = psutil.Process(bench.need_bare_worker()).memory_info().rss / MIB
    return _figures(count, ours, peers, memory)


def _figures(
    count: int, ours: list[float], peers: dict[str, list[float]], memory: dict[str, float]
) -> list[Figure]:
    rate, rates = middle(ours), {name: middle(found) for name, found in peers.items()}
    n = count * len(ours)
    name = "executions of 3 x 3 tasks, 2 workers"
    figures = [Figure(name, rate, "per s", n)] if not peers else []
    best = max((rates[each] for each in peer.DURABLE if each in rates), default=None)
    for durability, other in rates.items():
        target = 1.2 if other == best else None
        figures.append(
            Figure(name, rate, "per s", n, other, f"LangGraph {durability}", target, "at least")
        )
    figures.append(
        Figure("memory of a worker (RSS)", memory["ours"], "MiB", 1, memory["bare"], "bare worker")
    )
    if "peer" in memory:
        figures.append(
            Figure("memory of a worker (RSS)", memory["ours"], "MiB", 1, memory["peer"],
                   "LangGraph process")
        )  # fmt: skip
    return figures


def run_all(bench: Bench, count: int) -> float:
    """Executions per second from the first one sent to the last one ended."""
    plan = kit.grid(LAYERS, WIDTH)
    ids = [start_quietly(plan) for _ in range(count)]
    begun = time.time()
    for execution_id in ids:
        dispatch.enqueue(dispatch.ADVANCE, execution_id)
    waiting = Execution.objects.filter(pk__in=ids, finished_at=None)
    deadline = time.monotonic() + 600
    while waiting.exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{waiting.count()} executions did not end")
        time.sleep(0.1)
    last = Execution.objects.filter(pk__in=ids).latest("finished_at").finished_at
    assert last is not None
    return count / (last.timestamp() - begun)


def langgraph(count: int, durability: str) -> tuple[float, float]:
    """Runs per second of two processes, half of the runs each, and the memory of one in MiB."""
    half = str(count // 2)
    command = [sys.executable, "-m", "tests.benchmarks.peer", half, str(LAYERS), str(WIDTH)]
    both = [
        subprocess.Popen(
            [*command, durability],
            cwd=ROOT,
            env=dict(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for child in both:
        assert child.stdout is not None
        child.stdout.readline()
    told = [json.loads(child.communicate("go\n", timeout=600)[0]) for child in both]
    seconds = max(each["at"] for each in told) - min(each["begun"] for each in told)
    return 2 * (count // 2) / seconds, max(each["rss"] for each in told) / MIB
