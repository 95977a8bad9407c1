"""Approvals of outside agents, with the processes of `make run`, and Chromium.

From the request of an agent to its row on a reviewer's queue, and from a decision to the answer of
the agent's long poll, in turns with the floor (see `bare_approvals`).  Then 1,000 approvals of 50
agents that all wait at one web process: its memory and threads, and how fast it answers meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import httpx
import psutil
from playwright.sync_api import Browser, Page, expect, sync_playwright
from redis import Redis

from tests.benchmarks.figures import Figure, middle
from tests.benchmarks.surroundings import Bench
from tests.e2e import browser
from tests.e2e.live import WATCH
from tests.e2e.product import Product, free_port, running_product
from tests.e2e.test_review import Api, sign_in

#: The limits of a minute are not what is measured.
UNLIMITED = {f"HOLDPOINT_{name}_PER_MINUTE": "0" for name in ("REQUESTS", "STARTS", "DECISIONS")}
AGENTS, EACH = 50, 20
#: Seconds between an agent's request and the decision, so that its long poll waits.
THOUGHT = 0.3
#: Seconds for which the crowd waits while memory and CPU time are read.
CROWD_SECONDS = 25.0
MIB = 1024 * 1024
ACTION = {"name": "payments.transfer", "arguments": {"account": "DE02", "amount": 250}}


class Round(NamedTuple):
    """Milliseconds of one approval."""

    painted: float
    answered: float


@dataclass
class Rest:
    """One server as agents and reviewers call it."""

    ask: Callable[[], str]
    wait: Callable[[str], None]
    decide: Callable[[str], None]
    #: The row's `data-hold` of an approval.
    row: Callable[[str], str]


def measure(bench: Bench) -> list[Figure]:
    found = browser.find()
    if found is None:
        print(f"left out: {browser.ADVICE}", end=" ")
        return []
    rounds = bench.rounds(100, 15)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with running_product(**UNLIMITED) as product:
        # Playwright's synchronous interface and asyncio exclude each other in one thread.
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=str(found), args=arguments)
            ours, floor = _turns(bench, product, chromium, rounds)
            chromium.close()
        return [*_latencies(ours, floor), *asyncio.run(_crowd(bench, product, ours))]


# --- one approval after the other -----------------------------------------------------------------


def _turns(
    bench: Bench, product: Product, chromium: Browser, rounds: int
) -> tuple[list[Round], list[Round]]:
    """So many approvals of the product, and as many of the floor, in turns."""
    port = free_port()
    bench.forget_reports()
    bench.start("bare approvals", ["-m", "tests.benchmarks.bare_approvals", str(port)])
    bench.told_by("bare approvals")
    sides: list[tuple[Rest, Page, list[Round]]] = []
    with (
        httpx.Client(base_url=product.address, timeout=60) as ours,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as floor,
        ThreadPoolExecutor(1) as pool,
    ):
        sides.append((_product(ours, product), _queue(chromium, product), []))
        sides.append((_floor(floor), _floor_page(chromium, port), []))
        for _ in range(rounds + 5):
            for rest, page, rows in sides:
                rows.append(_round(rest, page, pool))
    return sides[0][2][5:], sides[1][2][5:]


def _round(rest: Rest, page: Page, pool: ThreadPoolExecutor) -> Round:
    begun = time.time()
    approval = rest.ask()
    row = rest.row(approval)
    painted = float(page.evaluate("hold => window.whenPainted(hold)", row)) - begun * 1000
    answer = pool.submit(_timed, rest.wait, approval)
    time.sleep(THOUGHT)
    decided = time.monotonic()
    rest.decide(approval)
    answered = (answer.result(60) - decided) * 1000
    expect(page.locator(f"#queue-list [data-hold='{row}']:not(.gone)")).to_have_count(0)
    return Round(painted, answered)


def _timed(wait: Callable[[str], None], approval: str) -> float:
    wait(approval)
    return time.monotonic()


def _product(client: httpx.Client, product: Product) -> Rest:
    agent = _bearer(Api(product, "integrator", "ask"))
    person = _bearer(Api(product, "reviewer2", "read,run,decide"))
    asked: dict[str, dict[str, Any]] = {}

    def ask() -> str:
        body = {"action": {**ACTION, "title": "A payment, measured"}}
        answer = client.post("/api/v1/approvals/", json=body, headers=agent)
        assert answer.status_code == 201, answer.text
        asked[answer.json()["id"]] = answer.json()
        return str(answer.json()["id"])

    def wait(approval: str) -> None:
        answer = client.get(f"/api/v1/approvals/{approval}/?wait=30", headers=agent)
        assert answer.json()["status"] == "approved", answer.text

    def decide(approval: str) -> None:
        answer = client.post("/api/v1/reviews/resume/", json=_approve(asked[approval]),
                             headers=person)  # fmt: skip
        assert answer.status_code == 200, answer.text

    return Rest(ask, wait, decide, lambda approval: str(asked[approval]["hold_id"]))


def _bearer(api: Api) -> dict[str, str]:
    return {"Authorization": f"Bearer {api.token}"}


def _approve(approval: dict[str, Any]) -> dict[str, Any]:
    return {
        "execution_id": approval["execution_id"], "hold_id": approval["hold_id"],
        "version": approval["version"], "decision": "APPROVE",
    }  # fmt: skip


def _queue(chromium: Browser, product: Product) -> Page:
    page = chromium.new_page()
    sign_in(page, product, "reviewer")
    page.goto(f"{product.address}/review/?q=measured")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.evaluate(WATCH)
    return page


def _floor(client: httpx.Client) -> Rest:
    return Rest(
        ask=lambda: str(client.post("/ask", json=ACTION).json()["id"]),
        wait=lambda approval: client.get(f"/wait/{approval}").raise_for_status().close(),
        decide=lambda approval: client.post(f"/decide/{approval}").raise_for_status().close(),
        row=lambda approval: approval,
    )


def _floor_page(chromium: Browser, port: int) -> Page:
    page = chromium.new_page()
    page.goto(f"http://127.0.0.1:{port}/")
    page.evaluate(WATCH)
    return page


def _latencies(ours: list[Round], floor: list[Round]) -> Iterator[Figure]:
    for name, of in (
        ("approval asked -> row painted in a browser", attrgetter("painted")),
        ("approval decided -> waiting agent answered", attrgetter("answered")),
    ):
        mine, theirs = ([of(each) for each in rounds] for rounds in (ours, floor))
        for word, figure in (("median", middle), ("p95", _p95)):
            yield Figure(f"{name}, {word}", figure(mine), "ms", len(mine),
                         figure(theirs), "bare floor")  # fmt: skip


def _p95(samples: list[float]) -> float:
    return statistics.quantiles(samples, n=20)[-1]


# --- a thousand at once ---------------------------------------------------------------------------


class Crowd:
    """Agents whose approvals all wait at one web process.

    Each agent has a client of its own: httpx takes longer for a request the more connections
    a client has, and with a thousand it delays the answers by a minute.
    """

    def __init__(self, agents: list[httpx.AsyncClient]) -> None:
        self._agents = agents
        self.approvals: list[dict[str, Any]] = []
        self.answered: dict[str, float] = {}
        self._polls: list[asyncio.Task[None]] = []

    async def ask(self, each: int, redis: Redis) -> None:
        """Every agent asks `each` times, and waits at once; return when the server knows all."""
        for start in range(0, len(self._agents), 5):
            agents = self._agents[start : start + 5]
            await asyncio.gather(*(self._asks(agent, each) for agent in agents))
        end = time.monotonic() + 300
        while (open_polls := len(redis.pubsub_channels("*execution.*"))) < len(self.approvals):
            assert time.monotonic() < end, f"{open_polls} wait"
            await asyncio.sleep(0.2)

    async def _asks(self, agent: httpx.AsyncClient, each: int) -> None:
        for _ in range(each):
            answer = await self._sent(agent, "POST", "/api/v1/approvals/", {"action": ACTION})
            assert answer.status_code == 201, answer.text
            self.approvals.append(answer.json())
            self._polls.append(asyncio.create_task(self._poll(agent, answer.json())))

    async def _poll(self, agent: httpx.AsyncClient, approval: dict[str, Any]) -> None:
        url = f"/api/v1/approvals/{approval['id']}/?wait=55"
        while approval["id"] not in self.answered:
            answer = await self._sent(agent, "GET", url)
            assert answer.status_code == 200, answer.text
            if answer.json()["status"] != "pending":
                self.answered[approval["id"]] = time.monotonic()

    async def _sent(
        self, agent: httpx.AsyncClient, method: str, url: str, body: Any = None
    ) -> httpx.Response:
        """Send a request, and repeat it a second after a 503, as the product's clients do."""
        while True:
            answer = await agent.request(method, url, json=body)
            if answer.status_code != 503:
                return answer
            await asyncio.sleep(1)

    async def leave(self) -> None:
        """Hang up."""
        for poll in self._polls:
            poll.cancel()
        await asyncio.gather(*self._polls, return_exceptions=True)


async def _crowd(bench: Bench, product: Product, alone: list[Round]) -> list[Figure]:
    agents, each = (AGENTS, EACH) if not bench.quick else (10, 10)
    rounds = bench.rounds(60, 15)
    tokens = [_bearer(Api(product, "integrator", "ask", f"agent {n}")) for n in range(agents)]
    person = _bearer(Api(product, "reviewer2", "read,run,decide"))
    web = _web_process(product)
    async with AsyncExitStack() as clients:
        client = await clients.enter_async_context(_client(product, person))
        crowd = Crowd(
            [await clients.enter_async_context(_client(product, token)) for token in tokens]
        )
        queue_before = await _asked(client, rounds)
        memory_before, threads_before = _pss(web), web.num_threads()
        await crowd.ask(each, Redis.from_url(product.servers.layout.urls.redis))
        with _busy(web) as busy:
            queue_during = await _asked(client, rounds)
            await asyncio.sleep(CROWD_SECONDS)
        memory, threads = _pss(web), web.num_threads()
        answered = await _decided(client, crowd, rounds)
        await crowd.leave()
    name, count = f"{agents * each:,} agents' approvals wait", agents * each
    before = "none waits"
    return [
        Figure(f"{name}: decided -> answered, median", middle(answered), "ms", rounds,
               middle([each.answered for each in alone]), before),
        Figure(f"{name}: decided -> answered, p95", _p95(answered), "ms", rounds,
               _p95([each.answered for each in alone]), before),
        Figure(f"{name}: queue, REST", middle(queue_during), "ms", rounds,
               middle(queue_before), before),
        Figure(f"{name}: memory of the web process (PSS)", memory, "MiB", count,
               memory_before, before),
        Figure(f"{name}: threads of the web process", threads, "", count, threads_before, before),
        Figure(f"{name}: one core's time of the web process", busy[0], "%", count),
    ]  # fmt: skip


def _client(product: Product, headers: dict[str, str]) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=product.address, timeout=90, headers=headers)


def _web_process(product: Product) -> psutil.Process:
    family = psutil.Process(product.process.pid).children(recursive=True)
    (web,) = (each for each in family if "daphne" in " ".join(each.cmdline()))
    return web


def _pss(process: psutil.Process) -> float:
    """Proportional set size in MiB: what other processes share is divided between them."""
    return float(process.memory_full_info().pss) / MIB


@contextmanager
def _busy(process: psutil.Process) -> Iterator[list[float]]:
    """Percent of one core that the process uses meanwhile, in a list of one."""
    found: list[float] = []
    used, begun = sum(process.cpu_times()[:2]), time.monotonic()
    yield found
    found.append(100 * (sum(process.cpu_times()[:2]) - used) / (time.monotonic() - begun))


async def _asked(client: httpx.AsyncClient, rounds: int) -> list[float]:
    """Milliseconds of so many requests of a reviewer's queue."""
    times = []
    for _ in range(rounds + 3):
        begun = time.monotonic()
        answer = await client.get("/api/v1/reviews/pending/")
        times.append((time.monotonic() - begun) * 1000)
        assert answer.status_code == 200, answer.text
    return times[3:]


async def _decided(client: httpx.AsyncClient, crowd: Crowd, rounds: int) -> list[float]:
    """Milliseconds from so many decisions to the answers of their long polls."""
    times = []
    for approval in crowd.approvals[: rounds + 3]:
        await asyncio.sleep(THOUGHT)
        begun = time.monotonic()
        answer = await client.post("/api/v1/reviews/resume/", json=_approve(approval))
        assert answer.status_code == 200, answer.text
        while approval["id"] not in crowd.answered:
            assert time.monotonic() < begun + 60, approval["id"]
            await asyncio.sleep(0.001)
        times.append((crowd.answered[approval["id"]] - begun) * 1000)
    return times[3:]
