"""Clients of the cluster: one that starts runs and decides, and sockets that listen."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Set
from typing import Any

import httpx
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

NAME = "holdpoint.example.com"
#: What the proxy sets, if there is one.
HEADERS = {"Host": NAME, "X-Forwarded-Proto": "https"}
#: What a proxy or the product answers while a server is replaced; other errors are faults.
RETRIED = frozenset({429, 502, 503, 504})
PATIENCE = 300.0
#: Seconds in which the last runs end, once no more are started.
DRAIN = 600.0


def echo(name: str, after: str = "", *, reviewed: bool = False) -> dict[str, Any]:
    value = {"$from": after} if after else "first"
    task = {"id": name, "type": "tool", "tool": "builtin.echo", "arguments": {"value": value}}
    return {**task, "human_review": {"trigger_phase": "BEFORE_EXECUTION"}} if reviewed else task


SLOW = {"type": "tool", "tool": "testkit.slow", "arguments": {"seconds": 0.5}}
#: Two layers that wait for a person, with tasks that take a while before and after.
PLAN = {
    "tasks": [
        {"id": "a", **SLOW},
        echo("b", "a", reviewed=True),
        echo("c", "b", reviewed=True),
        {"id": "d", **SLOW, "depends_on": ["c"]},
    ]
}
#: A run that goes on for the whole test.
LONG_PLAN = {
    "tasks": [echo("t0"), *(echo(f"t{n}", f"t{n - 1}", reviewed=True) for n in range(1, 21))]
}


class Load(threading.Thread):
    """Starts runs and approves everything that waits, in one thread, until `drain` is set."""

    AT_ONCE = 8

    def __init__(self, address: str, starter: str, decider: str, retried: Set[int]) -> None:
        super().__init__(name="load")
        self._retried = retried
        self.drain = threading.Event()
        self.runs: list[str] = []
        self.completed: set[str] = set()
        self.decisions = self.repeated = 0
        self.longest = 0.0  # seconds until one request was answered
        #: Seconds from each accepted start or decision until the run's next pause or end was seen.
        self.waits: list[float] = []
        self._accepted: dict[str, float] = {}
        self.error: BaseException | None = None
        self._address, self._starter, self._decider = address, starter, decider
        self._http = httpx.Client(headers=HEADERS, timeout=15)

    def run(self) -> None:
        try:
            with self._http:
                self._start(LONG_PLAN)
                while not self.drain.is_set():
                    self._round()
                    time.sleep(0.05)
                end = time.monotonic() + DRAIN
                while len(self.completed) < len(self.runs):
                    self._round()
                    assert time.monotonic() < end, f"{len(self.runs)} runs have not ended"
        except BaseException as error:
            self.error = error
            raise

    def _round(self) -> None:
        open_runs = [run for run in self.runs if run not in self.completed]
        if not self.drain.is_set() and len(open_runs) < self.AT_ONCE:
            self._start(PLAN)
        pending = self._ask("GET", "reviews/pending/", self._decider)
        for row in pending["results"]:
            self._approve(row)
        for run in open_runs:
            status = self._ask("GET", f"executions/{run}/", self._starter)["status"]
            assert status not in {"FAILED", "ABORTED"}, f"run {run} is {status}"
            if status == "COMPLETED":
                self._saw(run)
                self.completed.add(run)

    def _start(self, plan: dict[str, Any]) -> None:
        key = f"start-{len(self.runs)}"
        run = self._ask("POST", "executions/", self._starter, {"plan": plan}, key)["id"]
        self.runs.append(run)
        self._accepted[run] = time.monotonic()

    def _saw(self, run: str) -> None:
        if accepted := self._accepted.pop(run, None):
            self.waits.append(time.monotonic() - accepted)

    def _approve(self, row: dict[str, Any]) -> None:
        self._saw(row["execution_id"])
        body = {name: row[name] for name in ("execution_id", "hold_id", "version")}
        key = f"decide-{row['hold_id']}-{row['version']}"
        answer = self._ask(
            "POST", "reviews/resume/", self._decider, {**body, "decision": "APPROVE"}, key
        )
        # Refused with 409 where the list was read before an earlier decision took effect.
        if "code" not in answer:
            self.decisions += 1
            self._accepted[row["execution_id"]] = time.monotonic()

    def _ask(
        self, method: str, path: str, token: str, body: Any = None, key: str = ""
    ) -> dict[str, Any]:
        """Repeat a request until it is answered, as a client does that knows Idempotency-Key."""
        headers = {"Authorization": f"Bearer {token}"} | ({"Idempotency-Key": key} if key else {})
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < PATIENCE:
            try:
                answer = self._http.request(
                    method, f"http://{self._address}/api/v1/{path}", json=body, headers=headers
                )
            except httpx.TransportError:
                pass
            else:
                if answer.status_code not in self._retried:
                    assert answer.status_code in {200, 201, 409}, answer.text
                    self.longest = max(self.longest, time.monotonic() - begun)
                    found: dict[str, Any] = answer.json()
                    return found
            self.repeated += 1
            time.sleep(0.2)
        raise AssertionError(f"{method} {path}: no answer within {passed:.0f} s")


class Listener(threading.Thread):
    """A socket that connects again whenever it is closed; `path` is asked for each connection."""

    def __init__(self, address: str, token: str, path: Callable[[Listener], str]) -> None:
        super().__init__(name="listener", daemon=True)
        self.events: list[dict[str, Any]] = []
        self.connections = 0
        self.heard_at = time.monotonic()
        self._address, self._token, self._path = address, token, path
        self._ended = threading.Event()

    @property
    def last_seq(self) -> int:
        return max((each["seq"] for each in self.events), default=0)

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                self._listen()
            except (OSError, WebSocketException):
                self._ended.wait(0.3)

    def _listen(self) -> None:
        headers = {"Authorization": f"Bearer {self._token}", "X-Forwarded-Proto": "https"}
        host, _, port = self._address.partition(":")
        with (
            socket.create_connection((host, int(port or 80)), timeout=5) as cable,
            connect(f"ws://{NAME}{self._path(self)}", sock=cable, origin=f"https://{NAME}",
                    additional_headers=headers, open_timeout=15) as found,
        ):  # fmt: skip
            self.connections += 1
            while not self._ended.is_set():
                try:
                    event = json.loads(found.recv(timeout=0.5))
                except TimeoutError:
                    continue
                if event.get("seq") is not None:
                    self.events.append(event)
                self.heard_at = time.monotonic()

    def end(self) -> None:
        self._ended.set()
        self.join()


def queue(listener: Listener) -> str:
    """The queue's socket; asks for what a closed one may have missed in its last two polls too."""
    age = time.monotonic() - listener.heard_at + 40
    return f"/ws/reviews/?age={1000 * age:.0f}"


def events_of(execution_id: str) -> Callable[[Listener], str]:
    return lambda listener: f"/ws/executions/{execution_id}/?after={listener.last_seq}"
