"""What `make run` takes while nothing happens: memory, CPU time, transactions; its second start.

Memory is the proportional set size, which counts a page that several processes share once.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from tests.benchmarks.figures import Figure, middle
from tests.benchmarks.surroundings import Bench
from tests.e2e.desk import echo, until
from tests.e2e.product import START_SECONDS, Product, free_port, launch, remove
from tests.e2e.test_review import Api

MIB = 1024 * 1024
ALL_MIB, WORKER_MIB, START_S, CPU_PERCENT, PER_SECOND = 450.0, 100.0, 6.0, 1.0, 5.0
#: Seconds from "is ready" until the work of a start is done (lists of tool servers, statistics).
SETTLING = 20.0
#: Whole minutes: the sweeper reads the tool servers once a minute, by default.
WATCHED = 120.0
WORKER = "a worker"
_TRANSACTIONS = """
SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()
"""


def measure(bench: Bench) -> list[Figure]:
    """Start twice; look at the second start while it is idle, and after its first runs."""
    home = Path(tempfile.mkdtemp(prefix="holdpoint-footprint-"))
    home.chmod(0o711)
    product = launch(home, free_port())
    try:
        product.wait_for_line("is ready", START_SECONDS)
        product.stop()
        times, used = [], []
        for _ in range(bench.rounds(3, 1)):
            if product.process.poll() is None:
                product.stop()
            begun = time.monotonic()
            product = launch(home, product.port)
            product.wait_for_line("is ready", START_SECONDS)
            times.append(time.monotonic() - begun)
            used.append(_cpu_of_start(product))
        starts = [
            Figure("make run: second start until ready", middle(times), "s", len(times),
                   target=START_S),
            Figure("make run: CPU time of a second start", middle(used), "s", len(used)),
        ]  # fmt: skip
        time.sleep(SETTLING)
        return [*starts, *_memory(product, "idle"), *_activity(product), *_after_runs(product)]
    finally:
        product.command.close()
        if product.process.poll() is None:
            product.stop()
        remove(product.servers)


def _cpu_of_start(product: Product) -> float:
    """Return the seconds of CPU time so far: of what runs, and of the steps that have ended."""
    times = psutil.Process(product.process.pid).cpu_times()
    return cpu(processes(product)).total() + times.children_user + times.children_system


def _after_runs(product: Product) -> list[Figure]:
    """Return the memory after every worker had runs, because modules are imported on first use."""
    operator = Api(product, "operator", "read,run")
    for _ in range(20):
        code, run = operator("executions/", {"plan": {"tasks": [echo("only", "text")]}})
        assert code == 201, run
        until(operator, run["id"], "COMPLETED")
    return _memory(product, "after 20 runs")


def _memory(product: Product, moment: str) -> list[Figure]:
    sizes: defaultdict[str, list[float]] = defaultdict(list)
    for kind, process in processes(product):
        with contextlib.suppress(psutil.NoSuchProcess):  # such as an autovacuum worker
            sizes[kind].append(process.memory_full_info().pss / MIB)
    whole = sum(map(sum, sizes.values()))
    count = sum(map(len, sizes.values()))
    figures = [Figure(f"make run, {moment}: memory of everything", whole, "MiB", count,
                      target=ALL_MIB)]  # fmt: skip
    for kind, each in sizes.items():
        is_worker = kind == WORKER
        figures.append(
            Figure(f"make run, {moment}: memory of {kind}", max(each) if is_worker else sum(each),
                   "MiB", len(each), target=WORKER_MIB if is_worker else None)
        )  # fmt: skip
    return figures


def _activity(product: Product) -> list[Figure]:
    """Watch for half a minute what nobody asked for."""
    watched = list(processes(product))
    with product.servers.postgres.connect("holdpoint") as connection:

        def transactions() -> int:
            row = connection.execute(_TRANSACTIONS).fetchone()
            assert row is not None
            return int(str(row[0]))

        before, used, begun = transactions(), cpu(watched), time.monotonic()
        time.sleep(WATCHED)
        # Not counted: the one with which `before` was read.
        ended, after = time.monotonic(), transactions() - 1
    later, seconds = cpu(watched), ended - begun
    figures = [
        Figure("make run, idle: transactions", (after - before) / seconds, "per s", 1,
               target=PER_SECOND),
        Figure("make run, idle: CPU of everything", 100 * (later - used).total() / seconds,
               "% core", 1, target=CPU_PERCENT),
    ]  # fmt: skip
    for kind in used:
        figures.append(
            Figure(f"make run, idle: CPU of {kind}", 100 * (later - used)[kind] / seconds,
                   "% core", 1)
        )  # fmt: skip
    return figures


def cpu(watched: Iterable[tuple[str, psutil.Process]]) -> Counter[str]:
    """Return the seconds of CPU time so far, by kind of process."""
    used: Counter[str] = Counter()
    for kind, process in watched:
        if process.is_running():
            used[kind] += sum(process.cpu_times()[:2])
    return used


def processes(product: Product) -> Iterator[tuple[str, psutil.Process]]:
    """Yield every process of the product with its kind."""
    supervisor = psutil.Process(product.process.pid)
    servers = {
        "PostgreSQL": product.servers.postgres.process(),
        "Redis": product.servers.redis.process(),
    }
    seen = set()
    for kind, server in servers.items():
        assert server is not None
        for each in [server, *server.children(recursive=True)]:
            seen.add(each.pid)
            yield kind, each
    yield "the supervisor", supervisor
    for reader in supervisor.children():  # of honcho, one per process
        if reader.pid in seen:
            continue
        yield "the supervisor", reader
        for child in reader.children():
            yield from _family(child)


def _family(child: psutil.Process) -> Iterator[tuple[str, psutil.Process]]:
    command = " ".join(child.cmdline())
    if "run_workers" in command:
        yield "the pool of workers", child
        for worker in child.children():
            yield WORKER, worker
        return
    kinds = {"run_sweeper": "the sweeper", "embedded": "the watch of the databases"}
    kind = next((kinds[word] for word in kinds if word in command), "the web process")
    for each in [child, *child.children(recursive=True)]:
        yield kind, each
