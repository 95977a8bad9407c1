"""Pages and REST as a browser and a program get them from `make run`'s processes: with the pool of
database sessions and with a session for each request, in turns; then among many executions.
"""

from __future__ import annotations

import re
import statistics
import time

import httpx
import psycopg

from tests.benchmarks import listing
from tests.benchmarks.figures import Figure, middle
from tests.benchmarks.surroundings import Bench
from tests.e2e.desk import echo, started
from tests.e2e.product import Product, running_product
from tests.e2e.test_review import Api, password

UNLIMITED = {f"HOLDPOINT_{name}_PER_MINUTE": "0" for name in ("REQUESTS", "STARTS", "DECISIONS")}
WAITING = 60
#: Milliseconds at the p95, among `listing.EXECUTIONS` executions.
GOALS = {"queue, page": 25.0, "decision, page": 20.0, "run, page": 25.0}


class Desk:
    """A reviewer who has signed in, and runs that wait for them."""

    def __init__(self, product: Product) -> None:
        operator = Api(product, "operator", "read,run")
        task = echo("stop", "text", "BEFORE_EXECUTION")
        runs = [started(operator, task, title=f"Run {number}") for number in range(WAITING)]
        self._client = httpx.Client(base_url=product.address, timeout=30)
        form = self._client.get("/login/").text
        found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form)
        assert found
        said = {"username": "reviewer", "password": password(product, "reviewer")}
        answer = self._client.post("/login/", data={**said, "csrfmiddlewaretoken": found[1]})
        assert answer.status_code == 302, answer.text
        reviewer = Api(product, "reviewer2", "read")
        self._bearer = {"Authorization": f"Bearer {reviewer.token}"}
        self.looks = {
            "queue, page": "/review/",
            "queue, rows of one run": f"/review/?changed={runs[0]}",
            "decision, page": f"/review/{runs[0]}/{runs[0]}-1/",
            "run, page": f"/runs/{runs[0]}/",
            "history, page": "/history/",
            "queue, REST": "/api/v1/reviews/pending/",
            "one execution, REST": f"/api/v1/executions/{runs[0]}/",
        }

    def look(self, name: str) -> float:
        """Milliseconds until the whole answer is here."""
        address = self.looks[name]
        headers = self._bearer if "REST" in name else {}
        if "changed" in address:
            headers = {"HX-Request": "true", "HX-Target": "queue-list"}
        begun = time.perf_counter()
        answer = self._client.get(address, headers=headers)
        took = (time.perf_counter() - begun) * 1000
        assert answer.status_code == 200, (address, answer.status_code)
        return took


def measure(bench: Bench) -> list[Figure]:
    rounds = bench.rounds(60, 15)
    with running_product(**UNLIMITED) as with_pool:
        pooled = Desk(with_pool)
        with running_product(**UNLIMITED, HOLDPOINT_DB_POOL_MAX="0") as without:
            plain = Desk(without)
            figures = [_figure(name, pooled, plain, rounds) for name in pooled.looks]
        return [*figures, *_among_many(bench, with_pool, pooled)]


def _figure(name: str, pooled: Desk, plain: Desk, rounds: int) -> Figure:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds + 5):
        for desk, found in zip((pooled, plain), times, strict=True):
            found.append(desk.look(name))
    value, baseline = (middle(each[5:]) for each in times)
    return Figure(name, value, "ms", rounds, baseline, "a database session per request", target=1)


def _among_many(bench: Bench, product: Product, desk: Desk) -> list[Figure]:
    """The p95 of the pages after years of runs."""
    count = listing.EXECUTIONS if not bench.quick else listing.EXECUTIONS // 10
    with psycopg.connect(product.servers.layout.urls.owner, autocommit=True) as connection:
        connection.execute(listing.FILL, {"count": count, "every": count // listing.WAITING})
        connection.execute("ANALYZE")
    rounds, figures = bench.rounds(200, 40), []
    for name, goal in GOALS.items():
        times = [desk.look(name) for _ in range(rounds + 5)][5:]
        p95 = statistics.quantiles(times, n=20)[-1]
        among = f"{name}, among {count:,} executions"
        figures.append(Figure(f"{among}, median", middle(times), "ms", rounds))
        figures.append(Figure(f"{among}, p95", p95, "ms", rounds, target=goal))
    return figures
