"""A client for Python programs: start, wait, decide, follow.

    from workflows.api.client import Client

    with Client("http://127.0.0.1:8000", "hp_...") as holdpoint:
        run = holdpoint.start(workflow="release", inputs={"repo": "."})
        run = holdpoint.wait(run.id)
        for hold in run.open_holds:
            holdpoint.decide(run, hold["id"], "APPROVE", comment="Looks right.")

It needs httpx and nothing else of this project, so that the file may be copied as it is.
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
#: Where nothing goes on until somebody answers.
WAITING = frozenset({"PAUSED_FOR_REVIEW", "AWAITING_AGENT"})
#: Answers after which the same request is sent again; POSTs carry a key, so that is safe.
_AGAIN = frozenset({429, 502, 503, 504})
_TRIES = 5
_SLOWEST_POLL = 2.0


class Problem(Exception):
    """A refusal.  `code` is stable, `errors` names fields, `state` is the present one."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(body.get("code", "unknown"))
        self.detail = str(body.get("detail", ""))
        self.errors: list[dict[str, str]] = list(body.get("errors", ()))
        self.state: dict[str, Any] | None = body.get("state")
        super().__init__(f"{status} {self.code}: {self.detail}")


@dataclass(frozen=True, slots=True)
class Execution:
    """A run as it was when it was read; `body` is the whole answer."""

    id: str
    status: str
    version: int
    body: dict[str, Any] = field(repr=False)

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    @property
    def open_holds(self) -> list[dict[str, Any]]:
        """What waits for a decision, oldest first."""
        return [hold for hold in self.body["holds"] if hold["status"] == "OPEN"]

    def output(self, task: str) -> Any:
        """What a task gave; KeyError for a task that is not in the plan."""
        return {each["id"]: each["output"] for each in self.body["tasks"]}[task]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; `seq` is None for what is not recorded (`task_started`)."""

    type: str
    seq: int | None
    data: dict[str, Any]


class Client:
    """One installation, one token.  Threads may share it.

    `timeout` is in seconds and for one answer; `transport` is httpx's, for a proxy or a test.
    Raises Problem for refusals and httpx.HTTPError when there is no answer after five tries.
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

        With the same `key` the same call starts one run, however often it is made.
        """
        asked = {
            "workflow": workflow,
            "plan": plan,
            "intent": intent,
            "inputs": inputs,
            "policy": policy,
            "title": title,
        }
        body = {name: value for name, value in asked.items() if value is not None}
        return _execution(self._send("POST", "executions/", body, key=key))

    def get(self, execution_id: str) -> Execution:
        """The run as it is now."""
        return _execution(self._send("GET", f"executions/{execution_id}/"))

    def wait(
        self, execution_id: str, *, timeout: float | None = None, for_end: bool = False
    ) -> Execution:
        """The run once it is over or waits for an answer; with `for_end` once it is over.

        Raises TimeoutError after `timeout` seconds; None waits for as long as it takes.
        """
        end = None if timeout is None else time.monotonic() + timeout
        pause = 0.1
        while True:
            found = self.get(execution_id)
            if found.is_final or (found.status in WAITING and not for_end):
                return found
            if end is not None and time.monotonic() + pause > end:
                raise TimeoutError(f"run {execution_id} is {found.status} after {timeout} s")
            time.sleep(pause)
            pause = min(pause * 1.5, _SLOWEST_POLL)

    def command(
        self, execution_id: str, kind: str, *, key: str | None = None, **fields: Any
    ) -> dict[str, Any]:
        """One of the nine commands; the answer has `outcome`, `version` and `status`."""
        path = f"executions/{execution_id}/commands/"
        return self._send("POST", path, {"kind": kind, **fields}, key=key)

    def events(self, execution_id: str, *, after: int = 0) -> Iterator[Event]:
        """What happened after `after` and what happens, until the run is over.

        A broken connection is taken up where it broke.
        """
        last, tries = after, 0
        while True:
            try:
                for event in self._stream(execution_id, last):
                    tries = 0
                    last = last if event.seq is None else event.seq
                    yield event
                return
            except httpx.TransportError:
                tries += 1
                if tries == _TRIES:
                    raise
                time.sleep(0.2 * 2**tries)

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
        """Every hold that waits for this token's user, newest first."""
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
        """Decide a hold of a run as it was read; Problem `stale_version` when it moved on.

        Without `edits` (or with None) an approval changes nothing.  `set_output_null` approves with
        null in place of the task's output.
        With `undo_seconds` the run rests that long, and `withdraw` takes the decision back.
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
        """Take back a decision or a vote; Problem (409) once it has taken effect."""
        body = {"comment": comment}
        return self._send("POST", f"reviews/holds/{hold_id}/withdraw/", body, key=key)

    # --- one request ----------------------------------------------------------------------------

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, key: str | None = None
    ) -> dict[str, Any]:
        headers = {"Idempotency-Key": key or uuid.uuid4().hex} if method == "POST" else {}
        for tries in range(1, _TRIES + 1):
            wait = 0.2 * 2**tries
            try:
                response = self._http.request(method, path, json=body, headers=headers)
            except httpx.TransportError:
                if tries == _TRIES:
                    raise
            else:
                if response.status_code not in _AGAIN or tries == _TRIES:
                    return _answer(response)
                wait = float(response.headers.get("Retry-After", wait))
            time.sleep(wait)
        raise AssertionError("unreachable")


def _answer(response: httpx.Response) -> dict[str, Any]:
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
