"""News to many people: from a pause in PostgreSQL to every open socket and stream.

The processes of `make run`, one of them a web process, and 100 reviewers in this one.  Each round
is a new run that pauses before its only task; every socket of the queue hears it, and then the bell
of its person.  The streams follow one run from each of its pauses to the next.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import statistics
import time
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import httpx
import psutil

from tests.benchmarks.figures import Figure, middle
from tests.benchmarks.surroundings import Bench
from tests.e2e.desk import echo
from tests.e2e.product import Product, running_product
from tests.e2e.test_review import Api

#: The limits of a minute are not what is measured.
UNLIMITED = {f"HOLDPOINT_{name}_PER_MINUTE": "0" for name in ("REQUESTS", "STARTS", "DECISIONS")}
PEOPLE, STREAMS = 100, 200
COUNTS = (50, 200, 400, 1000)
P95_MS, CPU_MS = 500.0, 0.2
#: Connections that open at the same time.
OPENING = 50
#: Seconds for everybody to hear a pause.
PATIENCE = 90.0
_PAUSED = re.compile(rb'"type": ?"workflow_paused", ?"executionId": ?"(\d+)", ?"timestamp": ?(\d+)')
_BELL, _PONG = b'"type": "notices"', b'"type": "pong"'
_PING, _TEXT, _PONG_FRAME = 0x9, 0x1, 0xA


def make_people(number: int) -> None:
    """Print the session keys of so many new reviewers as JSON; called by `manage.py shell`."""
    from django.conf import settings
    from django.contrib.auth.models import Group, User
    from django.test import Client

    reviewers, keys = Group.objects.get(name="reviewer"), []
    for each in range(number):
        person = User.objects.create_user(f"news{each}")
        person.groups.add(reviewers)
        client = Client()
        client.force_login(person)
        keys.append(client.cookies[settings.SESSION_COOKIE_NAME].value)
    print(json.dumps(keys))


class Audience:
    """What all connections have heard: milliseconds from each pause, and the number of bells."""

    def __init__(self) -> None:
        self.delays: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self.counts: Counter[str] = Counter()

    def hears(self, kind: str, data: bytes) -> None:
        now = time.time() * 1000
        for found in _PAUSED.finditer(data):
            self.delays[kind, found[1].decode()].append(now - int(found[2]))
        if _BELL in data:
            self.counts["bell"] += data.count(_BELL)
        if _PONG in data:
            self.counts["open"] += 1


class Stream(asyncio.Protocol):
    """A stream of one run, or with frames a socket."""

    kind = "stream"

    def __init__(self, audience: Audience, request: bytes) -> None:
        self._audience, self._request, self._rest = audience, request, b""
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True

    def data_received(self, data: bytes) -> None:
        self._rest += data
        if not self.opened.done():
            head, end, rest = self._rest.partition(b"\r\n\r\n")
            if not end:
                return
            assert head.startswith((b"HTTP/1.1 101", b"HTTP/1.1 200")), head
            self.opened.set_result(None)
            self._rest = rest
        self.read()

    def read(self) -> None:
        end = self._rest.rfind(b"\n\n")
        if end >= 0:
            self._audience.hears(self.kind, self._rest[:end])
            self._rest = self._rest[end:]


class Socket(Stream):
    kind = "socket"

    def read(self) -> None:
        while len(self._rest) >= 2:
            length, start = self._rest[1] & 0x7F, 2
            if length == 126:
                length, start = int.from_bytes(self._rest[2:4]), 4
            if len(self._rest) < start + length:
                return
            code, payload = self._rest[0] & 0xF, self._rest[start : start + length]
            self._rest = self._rest[start + length :]
            if code == _TEXT:
                self._audience.hears(self.kind, payload)
            elif code == _PING:
                self.send(_PONG_FRAME, payload)

    def send(self, code: int, payload: bytes) -> None:
        """Send a short frame, masked with zeros."""
        self.transport.write(bytes([0x80 | code, 0x80 | len(payload)]) + bytes(4) + payload)


class Crowd:
    """The connections, the web process, and a person and an agent who keep it busy."""

    def __init__(self, product: Product, keys: list[str]) -> None:
        self._port, self._keys = product.port, keys
        self._audience, self._open = Audience(), list[Stream]()
        self._web = _web_process(product)
        self._starter = _bearer(Api(product, "operator", "read,run"))
        self._decider = _bearer(Api(product, "reviewer2", "read,run,decide"))
        self._client = httpx.AsyncClient(base_url=product.address, timeout=60)

    @property
    def sockets(self) -> int:
        return sum(each.kind == "socket" and not each.closed for each in self._open)

    async def open_sockets(self, number: int) -> None:
        await self._connect(Socket, "/ws/reviews/", number - self.sockets, self._upgrade())
        for each in self._open:
            if isinstance(each, Socket):
                each.send(_TEXT, b'{"type": "ping"}')
        await self._until(lambda: self._audience.counts["open"] >= self.sockets)
        self._audience.counts["open"] = 0

    async def open_streams(self, run: str, number: int) -> None:
        path = f"/api/v1/executions/{run}/events/"
        await self._connect(Stream, path, number, "Accept: text/event-stream\r\n")
        await self._until(lambda: len(self._audience.delays["stream", run]) >= number)

    async def _connect(self, kind: type[Stream], path: str, number: int, more: str) -> None:
        for start in range(0, number, OPENING):
            opening = [
                self._connection(kind, path, each, more)
                for each in range(start, min(start + OPENING, number))
            ]
            self._open += await asyncio.gather(*opening)

    async def _connection(self, kind: type[Stream], path: str, each: int, more: str) -> Stream:
        cookie = f"holdpoint_session_{self._port}={self._keys[each % len(self._keys)]}"
        request = (
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nCookie: {cookie}\r\n{more}\r\n"
        )
        _, protocol = await asyncio.get_running_loop().create_connection(
            lambda: kind(self._audience, request.encode()), "127.0.0.1", self._port
        )
        async with asyncio.timeout(PATIENCE):
            await protocol.opened
        return protocol

    def _upgrade(self) -> str:
        key = base64.b64encode(os.urandom(16)).decode()
        return (
            f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key}\r\nOrigin: http://127.0.0.1:{self._port}\r\n"
        )

    async def start(self, tasks: int = 1) -> str:
        """A run that waits before each of its tasks; its id."""
        plan = [echo(f"t{each}", "text", "BEFORE_EXECUTION") for each in range(tasks)]
        for before, each in pairwise(plan):
            each["depends_on"] = [before["id"]]
        answer = await self._client.post(
            "/api/v1/executions/", json={"plan": {"tasks": plan}}, headers=self._starter
        )
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def paused(self, run: str) -> dict[str, Any]:
        while True:
            answer = await self._client.get(f"/api/v1/executions/{run}/", headers=self._starter)
            found: dict[str, Any] = answer.json()
            if found["status"] == "PAUSED_FOR_REVIEW":
                return found
            await asyncio.sleep(0.05)

    async def pause(self) -> tuple[list[float], float]:
        """Milliseconds until each socket heard of a new run's pause; the web process's CPU ms."""
        self._audience.counts["bell"] = 0
        used = sum(self._web.cpu_times()[:2])
        run = await self.start()
        heard = self._audience.delays["socket", run]
        await self._until(lambda: len(heard) >= self.sockets)
        if self.sockets:
            await self._until(lambda: self._audience.counts["bell"] >= self.sockets)
        else:
            await asyncio.sleep(1.0)
        return heard, 1000 * (sum(self._web.cpu_times()[:2]) - used)

    async def next_pause(self, run: str) -> list[float]:
        """Milliseconds until each stream heard of the run's next pause."""
        found = await self.paused(run)
        self._audience.delays["stream", run].clear()
        hold = next(each for each in found["holds"] if each["status"] == "OPEN")
        body = {"execution_id": run, "hold_id": hold["id"], "version": found["version"],
                "decision": "APPROVE"}  # fmt: skip
        answer = await self._client.post(
            "/api/v1/reviews/resume/", json=body, headers=self._decider
        )
        assert answer.status_code == 200, answer.text
        heard = self._audience.delays["stream", run]
        await self._until(lambda: len(heard) >= STREAMS)
        return list(heard)

    async def _until(self, reached: Any) -> None:
        end = time.monotonic() + PATIENCE
        while not reached() and time.monotonic() < end:
            await asyncio.sleep(0.02)

    async def leave(self) -> None:
        for each in self._open:
            each.transport.abort()
        await self._client.aclose()


def measure(bench: Bench) -> list[Figure]:
    """Count sockets up, then add the streams."""
    with running_product(**UNLIMITED) as product:
        made = product.manage(
            "shell", "-v", "0", "-c",
            f"from tests.benchmarks.news import make_people; make_people({PEOPLE})",
        )  # fmt: skip
        figures = asyncio.run(_measured(product, json.loads(made), bench.rounds(10, 4)))
        errors = sum(" ERROR " in line or "Traceback" in line for line in product.lines)
    return [*figures, Figure("errors in the log after all hung up", errors, "", 1, target=0)]


async def _measured(product: Product, keys: list[str], rounds: int) -> list[Figure]:
    crowd, figures = Crowd(product, keys), list[Figure]()
    await crowd.pause()
    alone = middle([(await crowd.pause())[1] for _ in range(rounds)])
    for number in COUNTS:
        await crowd.open_sockets(number)
        figures += await _of_sockets(crowd, f"{number:,} sockets", number, rounds, alone)
    followed = await crowd.start(rounds + 3)
    await crowd.paused(followed)
    await crowd.open_streams(followed, STREAMS)
    name = f"{COUNTS[-1]:,} sockets and {STREAMS} streams"
    figures += await _of_sockets(crowd, name, COUNTS[-1], rounds, alone)
    times = [time for _ in range(rounds) for time in await crowd.next_pause(followed)]
    figures += _delays(f"{name}: pause -> stream", times, P95_MS)
    await crowd.leave()
    await asyncio.sleep(5)
    return figures


async def _of_sockets(
    crowd: Crowd, name: str, number: int, rounds: int, alone: float
) -> list[Figure]:
    await crowd.pause()
    found = [await crowd.pause() for _ in range(rounds)]
    times = [time for heard, _ in found for time in heard]
    missing = number * rounds - len(times)
    if missing:
        print(f"{name}: {missing} pauses were not heard", end=" ")
    cpu = (middle([used for _, used in found]) - alone) / number
    is_goal = number == COUNTS[-1]
    return [
        *_delays(f"{name}: pause -> socket", times, P95_MS if is_goal else None),
        Figure(f"{name}: CPU of the web process per socket and pause", cpu, "ms", rounds,
               target=CPU_MS if is_goal else None),
    ]  # fmt: skip


def _delays(name: str, times: list[float], target: float | None) -> list[Figure]:
    p95 = statistics.quantiles(times, n=20)[-1]
    return [
        Figure(f"{name}, median", middle(times), "ms", len(times)),
        Figure(f"{name}, p95", p95, "ms", len(times), target=target),
    ]


def _bearer(api: Api) -> dict[str, str]:
    return {"Authorization": f"Bearer {api.token}"}


def _web_process(product: Product) -> psutil.Process:
    family = psutil.Process(product.process.pid).children(recursive=True)
    (web,) = (each for each in family if "daphne" in " ".join(each.cmdline()))
    return web
