"""A client for Python programs: start runs, wait, decide, read events.

    from workflows.api.client import Client

    with Client("http://127.0.0.1:8000", "hp_...") as holdpoint:
        run = holdpoint.start(workflow="release", inputs={"repo": "."})
        run = holdpoint.wait(run.id)
        for hold in run.open_holds:
            holdpoint.decide(run, hold["id"], "APPROVE", comment="Looks right.")

It needs only httpx, and no other file of this project, so that you may copy the file.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self

import httpx

FINAL = frozenset({"COMPLETED", "FAILED", "ABORTED"})
#: Statuses in which the run waits for a decision.
WAITING = frozenset({"PAUSED_FOR_REVIEW", "AWAITING_AGENT"})
#: Statuses after which the request is retried; POSTs have an idempotency key, so this is safe.
_RETRY_STATUSES = frozenset({429, 502, 503, 504})
_MAX_ATTEMPTS = 5
_MAX_POLL_SECONDS = 2.0


class Problem(Exception):
    """An error response. `code` is stable, `errors` names fields, `state` is the current state."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(body.get("code", "unknown"))
        self.detail = str(body.get("detail", ""))
        self.errors: list[dict[str, str]] = list(body.get("errors", ()))
        self.state: dict[str, Any] | None = body.get("state")
        super().__init__(f"{status} {self.code}: {self.detail}")


@dataclass(frozen=True, slots=True)
class Execution:
    """A run as last read; `body` is the full response."""

    id: str
    status: str
    version: int
    body: dict[str, Any] = field(repr=False)

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    @property
    def open_holds(self) -> list[dict[str, Any]]:
        """Open holds, oldest first."""
        return [hold for hold in self.body["holds"] if hold["status"] == "OPEN"]

    def output(self, task: str) -> Any:
        """Return the output of a task; raise KeyError for a task that is not in the plan."""
        return {each["id"]: each["output"] for each in self.body["tasks"]}[task]


@dataclass(frozen=True, slots=True)
class Event:
    """An event; `seq` is None for events that are not recorded (`task_started`)."""

    type: str
    seq: int | None
    data: dict[str, Any]


class Client:
    """A client of one server with one token; thread-safe.

    `timeout` is in seconds per response; `transport` is passed to httpx, for a proxy or a test.
    Methods raise Problem for error responses, and httpx.HTTPError after five attempts without a
    response.
    """

    def __init__(
        self,
        base_url: str,
        token: str,
        *,
        timeout: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = httpx.Client(
            transport=transport,
            base_url=f"{base_url.rstrip('/')}/api/v1/",
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            timeout=timeout,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # --- runs -----------------------------------------------------------------------------------

    def start(
        self,
        *,
        workflow: str | None = None,
        plan: Mapping[str, Any] | None = None,
        intent: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        title: str | None = None,
        key: str | None = None,
    ) -> Execution:
        """Start a run of a workflow, a plan or an intent.

        Repeated calls with the same `key` start only one run.
        """
        fields = {
            "workflow": workflow,
            "plan": plan,
            "intent": intent,
            "inputs": inputs,
            "policy": policy,
            "title": title,
        }
        body = {name: value for name, value in fields.items() if value is not None}
        return _execution(self._send("POST", "executions/", body, key=key))

    def get(self, execution_id: str) -> Execution:
        """Read a run."""
        return _execution(self._send("GET", f"executions/{execution_id}/"))

    def wait(
        self, execution_id: str, *, timeout: float | None = None, for_end: bool = False
    ) -> Execution:
        """Wait until the run ends or waits for a decision; with `for_end`, until it ends.

        Raises TimeoutError after `timeout` seconds; None waits without a limit.
        """
        end = None if timeout is None else time.monotonic() + timeout
        pause = 0.1
        while True:
            run = self.get(execution_id)
            if run.is_final or (run.status in WAITING and not for_end):
                return run
            if end is not None and time.monotonic() + pause > end:
                raise TimeoutError(f"run {execution_id} is {run.status} after {timeout} s")
            time.sleep(pause)
            pause = min(pause * 1.5, _MAX_POLL_SECONDS)

    def command(
        self, execution_id: str, kind: str, *, key: str | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Submit one of the nine commands; the response has `outcome`, `version` and `status`."""
        path = f"executions/{execution_id}/commands/"
        return self._send("POST", path, {"kind": kind, **fields}, key=key)

    def events(self, execution_id: str, *, after: int = 0) -> Iterator[Event]:
        """Yield the events after `after`, and new events until the run ends.

        A lost connection is resumed from the last event.
        """
        last, attempts = after, 0
        while True:
            try:
                for event in self._stream(execution_id, last):
                    attempts = 0
                    last = last if event.seq is None else event.seq
                    yield event
                return
            except httpx.TransportError:
                attempts += 1
                if attempts == _MAX_ATTEMPTS:
                    raise
                time.sleep(0.2 * 2**attempts)

    def _stream(self, execution_id: str, after: int) -> Iterator[Event]:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        path = f"executions/{execution_id}/events/"
        with self._http.stream("GET", path, headers=headers, timeout=60.0) as response:
            if response.status_code >= 400:
                response.read()
                raise _problem(response)
            for line in response.iter_lines():
                if line.startswith("data: ") and line != "data: {}":
                    data = json.loads(line.removeprefix("data: "))
                    yield Event(type=data["type"], seq=data.get("seq"), data=data)

    # --- decisions ------------------------------------------------------------------------------

    def pending(self) -> Iterator[dict[str, Any]]:
        """Yield the holds that this token's user may decide, newest first."""
        page = self._send("GET", "reviews/pending/")
        while True:
            yield from page["results"]
            if page["next"] is None:
                return
            page = self._send("GET", page["next"])

    def decide(
        self,
        execution: Execution,
        hold_id: str,
        decision: Literal["APPROVE", "REJECT", "REQUEST_CHANGES"],
        *,
        edits: Any = None,
        set_output_null: bool = False,
        comment: str = "",
        undo_seconds: float = 0,
        key: str | None = None,
    ) -> dict[str, Any]:
        """Decide a hold; raise Problem `stale_version` if the run changed since it was read.

        Without `edits` (or with None) an approval changes nothing. `set_output_null` approves and
        replaces the task's output with null. With `undo_seconds` the run pauses that long, and
        `withdraw` can take the decision back.
        """
        body = {
            "execution_id": execution.id,
            "hold_id": hold_id,
            "version": execution.version,
            "decision": decision,
            "edits": edits,
            "set_output_null": set_output_null,
            "comment": comment,
            "undo_seconds": undo_seconds,
        }
        return self._send("POST", "reviews/resume/", body, key=key)

    def withdraw(
        self, hold_id: str, *, comment: str = "", key: str | None = None
    ) -> dict[str, Any]:
        """Take back a decision or a vote; raise Problem (409) once it has taken effect."""
        body = {"comment": comment}
        return self._send("POST", f"reviews/holds/{hold_id}/withdraw/", body, key=key)

    # --- one request ----------------------------------------------------------------------------

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, key: str | None = None
    ) -> dict[str, Any]:
        headers = {"Idempotency-Key": key or uuid.uuid4().hex} if method == "POST" else {}
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            wait = 0.2 * 2**attempt
            try:
                response = self._http.request(method, path, json=body, headers=headers)
            except httpx.TransportError:
                if attempt == _MAX_ATTEMPTS:
                    raise
            else:
                if response.status_code not in _RETRY_STATUSES or attempt == _MAX_ATTEMPTS:
                    return _body_of(response)
                wait = float(response.headers.get("Retry-After", wait))
            time.sleep(wait)
        raise AssertionError("unreachable")


def _body_of(response: httpx.Response) -> dict[str, Any]:
    if response.status_code >= 400:
        raise _problem(response)
    body: dict[str, Any] = response.json()
    return body


def _problem(response: httpx.Response) -> Problem:
    try:
        body = response.json()
    except ValueError:
        body = {"detail": response.text[:200]}
    return Problem(response.status_code, body if isinstance(body, dict) else {})


def _execution(body: dict[str, Any]) -> Execution:
    return Execution(body["id"], body["status"], body["version"], body)
