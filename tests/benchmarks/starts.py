"""Runs per second from their start over REST to their end, and the CPU time that each takes."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.benchmarks.figures import Figure, middle
from tests.benchmarks.footprint import WORKER, cpu, processes
from tests.benchmarks.pages import UNLIMITED
from tests.benchmarks.surroundings import Bench
from tests.e2e.desk import echo
from tests.e2e.product import Product, running_product
from tests.e2e.test_review import Api

LAYERS, WIDTH = 3, 3
CLIENTS = 8
PER_SECOND = 80.0
_LEFT = "SELECT count(*) FROM workflows_execution WHERE status IN ('PENDING', 'RUNNING')"


def measure(bench: Bench) -> list[Figure]:
    """Start many runs of no-op tasks from several connections, with the processes of `make run`."""
    count, turns = (400, 3) if not bench.quick else (100, 2)
    with running_product(**UNLIMITED) as product:
        token = Api(product, "operator", "read,run").token
        headers = {"Authorization": f"Bearer {token}"}
        rates, used = [], Counter[str]()
        with httpx.Client(base_url=product.address, headers=headers, timeout=60) as client:
            _run_all(client, product, 20)
            for _ in range(turns):
                before = cpu(processes(product))
                rates.append(count / _run_all(client, product, count))
                used += cpu(processes(product)) - before
    name = f"runs of {LAYERS} x {WIDTH} tasks, start over REST to end"
    whole, n = used.total(), count * turns
    figures = [Figure(name, middle(rates), "per s", n, target=PER_SECOND, bound="at least")]
    for kind in ("the web process", WORKER, "PostgreSQL", "Redis", "the sweeper"):
        label = "the workers" if kind == WORKER else kind
        figures.append(Figure(f"{name}: CPU of {label}", 1000 * used[kind] / n, "ms per run", n))
    return [*figures, Figure(f"{name}: CPU of everything", 1000 * whole / n, "ms per run", n)]


def _run_all(client: httpx.Client, product: Product, count: int) -> float:
    """Return the seconds from the first start until the last run has ended."""
    body = {"plan": _plan()}

    def start(_: int) -> None:
        answer = client.post("/api/v1/executions/", json=body)
        assert answer.status_code == 201, answer.text

    begun = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(start, range(count)))
    with product.servers.postgres.connect("holdpoint") as connection:
        while (row := connection.execute(_LEFT).fetchone()) != (0,):
            assert time.monotonic() - begun < 600, row
            time.sleep(0.05)
    return time.monotonic() - begun


def _plan() -> dict[str, object]:
    """Return layers of tasks that each wait for the whole layer before."""
    tasks = []
    for layer in range(LAYERS):
        needs = [f"t{layer - 1}_{place}" for place in range(WIDTH)] if layer else []
        for place in range(WIDTH):
            tasks.append({**echo(f"t{layer}_{place}", layer), "depends_on": needs})
    return {"tasks": tasks}
