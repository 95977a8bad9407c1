"""Ask people for approval from a Python agent; one file, standard library only, Python 3.10+.

    from holdpoint import Rejected, requires_approval

    @requires_approval(name="payments.transfer", risk="high", editable=["/amount"])
    def transfer(account: str, amount: float) -> str:
        ...

    try:
        transfer("DE02 1203 0000 0000 2020 51", 250.0)   # waits for a person
    except Rejected as rejected:
        print("not approved:", rejected.reason)

The server and the token come from HOLDPOINT_URL and HOLDPOINT_TOKEN, or from `Client(url, token)`.

The client fails closed. `approve` returns only for an approval whose arguments have the digest that
the server states, and whose arguments are the requested ones unless a reviewer edited them. All
else raises: a rejection, a timeout, an unreachable server, an answer that is not understood.
Network errors are retried with backoff and jitter.

Give a `key` to wait through restarts of your program: the same name, arguments and key continue the
same approval instead of asking again. An approval is for one execution: once its result is
reported, asking again with its key raises AlreadyExecuted. A program that dies between execution
and report is approved again, so actions should be idempotent by `decision.id`.

`approve_async` and decorated coroutine functions wait in a thread of their own per approval.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import hashlib
import http.client
import inspect
import json
import logging
import os
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, TypeVar, cast

__all__ = [
    "AlreadyExecuted", "Cancelled", "ChangesRequested", "Client", "Decision", "Expired", "Failed",
    "HoldpointError", "InvalidResponse", "NotApproved", "NotDecided", "Problem", "Rejected",
    "Unreachable", "canonical", "digest", "human_as_tool", "requires_approval",
]  # fmt: skip

Risk = Literal["low", "medium", "high"]
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_log = logging.getLogger("holdpoint")
_RETRY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_MAX_RESPONSE_BYTES = 16 * 2**20
_CONNECT_SECONDS = 10.0
_LONGEST_POLL = 50
_LONGEST_PAUSE = 30.0
_FIRST_PAUSE = 0.5


# --- errors -------------------------------------------------------------------------------------


class HoldpointError(Exception):
    """Base class: the action is not approved."""


class Problem(HoldpointError):
    """The server refused the request; `code` is stable, `errors` names fields."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(body.get("code", "unknown"))
        self.detail = str(body.get("detail", ""))
        self.errors = body.get("errors", [])
        named = f" {json.dumps(self.errors)}" if self.errors else ""
        super().__init__(f"{status} {self.code}: {self.detail}{named}")


class Unreachable(HoldpointError):
    """The server gave no usable response for longer than `patience`."""


class InvalidResponse(HoldpointError):
    """The server's answer does not belong to the request: a digest, an edit or a field is wrong."""


class NotDecided(HoldpointError):
    """The deadline passed. The approval stays pending only if it was made with a `key`."""


class NotApproved(HoldpointError):
    """The approval ended without permission; `reason` is for people and models."""

    def __init__(self, decision: Decision, reason: str) -> None:
        self.decision = decision
        self.reason = reason
        super().__init__(reason)


class Rejected(NotApproved):
    """A reviewer rejected the action; `reason` is the comment."""


class ChangesRequested(NotApproved):
    """A reviewer wants other arguments: see `reason`, then `Client.resubmit`."""


class Expired(NotApproved):
    """Nobody decided in time, and the policy rejects then."""


class Cancelled(NotApproved):
    """The approval was cancelled."""


class Failed(NotApproved):
    """The approval or its execution failed."""


class AlreadyExecuted(NotApproved):
    """The result of this approval was reported before: `decision.result`."""


_ENDED: dict[str, tuple[type[NotApproved], str]] = {
    "rejected": (Rejected, "A reviewer rejected this action."),
    "changes_requested": (ChangesRequested, "A reviewer asked for changes."),
    "expired": (Expired, "Nobody approved this action in time."),
    "cancelled": (Cancelled, "The approval was cancelled."),
    "completed": (AlreadyExecuted, "This action was executed before."),
    "failed": (Failed, "The approval failed."),
}


# --- canonical JSON -----------------------------------------------------------------------------

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def canonical(value: Any) -> str:
    """Return the canonical JSON text: sorted keys, ASCII, no spaces, whole numbers as digits.

    Raises ValueError or TypeError for a value that JSON cannot represent.
    """
    text = _encode(value)
    return _encode(json.loads(text, parse_float=_one_form))


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON text, as the server computes it."""
    return hashlib.sha256(canonical(value).encode("ascii")).hexdigest()


def _one_form(literal: str) -> int | float:
    number = Decimal(literal)
    return int(number) if number == number.to_integral_value() else float(literal)


# --- decisions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decision:
    """An approval as last read; `arguments` are the decided ones, `body` is the full response."""

    id: str
    status: str
    arguments: dict[str, Any]
    arguments_digest: str
    edited: bool
    comment: str
    body: Mapping[str, Any] = field(repr=False)

    @property
    def approved(self) -> bool:
        return self.status == "approved"

    @property
    def output(self) -> Any:
        """The output after the review, of an approval with `output`."""
        return self.body.get("output")

    @property
    def result(self) -> Any:
        """What was reported after the execution."""
        return self.body.get("result")

    @property
    def review_url(self) -> str:
        return str(self.body.get("review_url") or "")


class Client:
    """A client of one server with one token; safe to share between threads.

    `patience` is how many seconds in a row the server may be unreachable before `Unreachable`.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        agent: str | None = None,
        patience: float = 300.0,
    ) -> None:
        url = url or os.environ.get("HOLDPOINT_URL", "")
        token = token or os.environ.get("HOLDPOINT_TOKEN", "")
        if urllib.parse.urlsplit(url).scheme not in {"http", "https"}:
            raise ValueError("HOLDPOINT_URL must be an http or https URL")
        if not token.isascii() or not token.isprintable() or not token.strip():
            raise ValueError("HOLDPOINT_TOKEN must be a token of Holdpoint")
        self._base = f"{url.rstrip('/')}/api/v1/approvals/"
        self._token = token
        self._agent = agent
        self._patience = patience
        # No redirects: they would send the token elsewhere.
        self._opener = urllib.request.build_opener(_NoRedirects)

    # --- asking ---------------------------------------------------------------------------------

    def approve(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        key: str | None = None,
        timeout: float | None = None,
        **more: Any,
    ) -> Decision:
        """Ask for approval and wait; return the decision only if it is an approval.

        `more` are `risk`, `editable`, `title`, `description`, `schema`, `output` (for a review of
        the result, after the execution) and all other fields of POST /api/v1/approvals/.

        Raises NotApproved (Rejected, ChangesRequested, Expired, Cancelled, Failed,
        AlreadyExecuted), NotDecided after `timeout` seconds, Problem, Unreachable, InvalidResponse.
        """
        body = self.request_body(name, arguments, **more)
        return self._approve(body, key, _Wait(timeout))

    async def approve_async(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        key: str | None = None,
        timeout: float | None = None,
        **more: Any,
    ) -> Decision:
        """As `approve`, for asyncio; the wait has a thread of its own, which ends with the task."""
        body, wait = self.request_body(name, arguments, **more), _Wait(timeout)
        return await _in_thread(lambda: self._approve(body, key, wait), wait.stopped)

    def decide(
        self,
        bodies: Mapping[str, Mapping[str, Any]],
        *,
        key: str | None = None,
        timeout: float | None = None,
        **more: Any,
    ) -> dict[str, Mapping[str, Any]]:
        """Ask for all `bodies`, which an adapter made by call id; return the decisions by call id.

        A decision may be a rejection, which the adapter turns into the framework's answer. `more`
        are fields for every body, such as `risk`. Raises as `approve`, except NotApproved.
        """
        return self._decide_bodies(bodies, key, _Wait(timeout), more)

    async def decide_async(
        self,
        bodies: Mapping[str, Mapping[str, Any]],
        *,
        key: str | None = None,
        timeout: float | None = None,
        **more: Any,
    ) -> dict[str, Mapping[str, Any]]:
        """As `decide`, for asyncio."""
        wait = _Wait(timeout)
        return await _in_thread(lambda: self._decide_bodies(bodies, key, wait, more), wait.stopped)

    def ask(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        key: str | None = None,
        timeout: float | None = None,
        **more: Any,
    ) -> Decision:
        """Ask for approval without waiting; `status` is usually "pending"."""
        body = self.request_body(name, arguments, **more)
        return self.post(body, key=key, timeout=timeout)

    def request_body(self, name: str, arguments: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Return the body of POST /api/v1/approvals/."""
        action = {"name": name, "arguments": dict(arguments)}
        in_action = ("title", "description", "schema", "output")
        action.update({each: more.pop(each) for each in in_action if each in more})
        body: dict[str, Any] = {"action": action}
        if "output" in action:
            body["phase"] = "AFTER_EXECUTION"
        return {**body, **{each: value for each, value in more.items() if value is not None}}

    def post(
        self, body: Mapping[str, Any], *, key: str | None = None, timeout: float | None = None
    ) -> Decision:
        """Send a body of POST /api/v1/approvals/, for example one that an adapter made."""
        return self._post(body, key, _Wait(timeout))

    def read(self, approval_id: str, *, wait: int = 0, timeout: float | None = None) -> Decision:
        """Read an approval; with `wait`, after at most that many seconds or when it is decided."""
        return self._read(approval_id, wait, _Wait(timeout))

    def wait(self, approval_id: str, *, timeout: float | None = None) -> Decision:
        """Wait until an approval is no longer pending; raise NotDecided after `timeout` seconds.

        The decision may be a rejection: look at `approved`.
        """
        return self._wait(approval_id, _Wait(timeout))

    def resubmit(
        self, approval_id: str, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> Decision:
        """Answer ChangesRequested with other arguments, and wait as `approve` does."""
        return self._resubmit(approval_id, {"arguments": dict(arguments)}, _Wait(timeout))

    def resubmit_output(
        self, approval_id: str, output: Any, *, timeout: float | None = None
    ) -> Decision:
        """Answer ChangesRequested with another output of an executed action, and wait."""
        return self._resubmit(approval_id, {"output": output}, _Wait(timeout))

    def _resubmit(self, approval_id: str, body: Mapping[str, Any], wait: _Wait) -> Decision:
        path = f"{_quoted(approval_id)}/resubmit/"
        self._send("POST", path, body, wait, key=uuid.uuid4().hex)
        decision = self._wait(approval_id, wait)
        # The arguments of an executed action do not change.
        action = {"arguments": decision.arguments, **body}
        return _approval(_checked(decision, {"action": action}))

    def cancel(self, approval_id: str, reason: str, *, timeout: float | None = 30.0) -> None:
        """Withdraw the request: reviewers no longer see it."""
        path = f"{_quoted(approval_id)}/cancel/"
        self._send("POST", path, {"reason": reason}, _Wait(timeout), key=uuid.uuid4().hex)

    def report(
        self,
        decision: Decision,
        *,
        ok: bool = True,
        output: Any = None,
        error: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        timeout: float | None = 60.0,
    ) -> None:
        """Report what happened; `arguments` are the executed ones, if not the decided ones."""
        body: dict[str, Any] = {"ok": ok, "output": _as_json(output)}
        if error is not None:
            body["error"] = error
        executed = decision.arguments if arguments is None else arguments
        body["arguments_digest"] = digest(executed)
        path = f"{_quoted(decision.id)}/result/"
        key = f"result-{decision.id}"
        self._send("POST", path, body, _Wait(timeout), key=key)

    # --- implementation -------------------------------------------------------------------------

    def _approve(self, body: Mapping[str, Any], key: str | None, wait: _Wait) -> Decision:
        return _approval(self._decide({"": (body, key)}, wait)[""])

    def _decide_bodies(
        self,
        bodies: Mapping[str, Mapping[str, Any]],
        key: str | None,
        wait: _Wait,
        more: Mapping[str, Any],
    ) -> dict[str, Mapping[str, Any]]:
        asks = {
            call: ({**body, **more}, None if key is None else f"{key}:{call}")
            for call, body in bodies.items()
        }
        return {call: decision.body for call, decision in self._decide(asks, wait).items()}

    def _decide(
        self, asks: Mapping[str, tuple[Mapping[str, Any], str | None]], wait: _Wait
    ) -> dict[str, Decision]:
        """Return what was decided about each body; approvals are checked against it."""
        pending: dict[str, Decision] = {}
        decided: dict[str, Decision] = {}
        try:
            for call, (body, key) in asks.items():
                pending[call] = self._post(body, key, wait)
            for call, (body, _) in asks.items():
                decision = pending[call]
                if decision.status == "pending":
                    decision = self._wait(decision.id, wait)
                decided[call] = _checked(decision, body)
        except NotDecided:
            for call in pending.keys() - decided.keys():
                if asks[call][1] is None:  # without a key nobody can continue this approval
                    self._give_up(pending[call].id)
            raise
        return decided

    def _post(self, body: Mapping[str, Any], key: str | None, wait: _Wait) -> Decision:
        action = body["action"]
        if self._agent:
            body = {"requested_by": {"agent": self._agent}, **body}
        header = uuid.uuid4().hex
        if key is not None:
            header = digest([action["name"], action["arguments"], key])
        answer = self._send("POST", "", body, wait, key=header)
        approval_id, status = answer.get("id"), answer.get("status")
        if not isinstance(approval_id, str) or not isinstance(status, str):
            raise InvalidResponse("the response has no id and status")
        if status != "pending":  # decided by a rule, or earlier: read what was decided
            return self._read(approval_id, 0, wait)
        if answer.get("arguments_digest") != digest(action["arguments"]):
            raise InvalidResponse("the server holds other arguments than the ones sent")
        return _decision(answer)

    def _read(self, approval_id: str, seconds: int, wait: _Wait) -> Decision:
        path = f"{_quoted(approval_id)}/" + (f"?wait={seconds}" if seconds else "")
        decision = _decision(self._send("GET", path, None, wait, longest=seconds))
        if decision.id != approval_id:
            raise InvalidResponse("the server answered about another approval")
        return decision

    def _wait(self, approval_id: str, wait: _Wait) -> Decision:
        while True:
            asked = time.monotonic()
            seconds = int(min(_LONGEST_POLL, max(1.0, wait.left())))
            decision = self._read(approval_id, seconds, wait)
            if decision.status != "pending":
                return decision
            if time.monotonic() - asked < 1.0:  # a server that does not hold the request
                wait.pause(1.0)
            wait.check(f"approval {approval_id} is still pending")

    def _give_up(self, approval_id: str) -> None:
        try:
            self.cancel(approval_id, "The agent stopped waiting.", timeout=10.0)
        except HoldpointError as error:
            _log.warning("approval %s could not be cancelled: %s", approval_id, error)

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        wait: _Wait,
        *,
        key: str | None = None,
        longest: float = 0.0,
    ) -> dict[str, Any]:
        """Send one request until it has a usable response; `key` makes a repeated POST safe."""
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        data = None
        if body is not None:
            data = _encode(body).encode("ascii")
            headers |= {"Content-Type": "application/json", "Idempotency-Key": key or ""}
        pause, unreachable_since = _FIRST_PAUSE, time.monotonic()
        while True:
            limit = min(longest + _CONNECT_SECONDS + 5.0, max(wait.left(), 1.0))
            request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
                self._base + path, data=data, headers=headers, method=method
            )
            try:
                return _fetch(self._opener, request, limit)
            except _Retry as error:
                last = error
            if time.monotonic() - unreachable_since > self._patience:
                raise Unreachable(f"{method} {self._base}{path}: {last}") from None
            wait.check(f"{method} {self._base}{path}: {last}")
            least = min(last.retry_after, _LONGEST_PAUSE)
            wait.pause(max(least, pause * random.uniform(0.5, 1.0)))  # noqa: S311 - jitter
            pause = min(pause * 2, _LONGEST_PAUSE)


class _Wait:
    """A deadline, and a flag with which another thread ends the wait."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds
        self.stopped = threading.Event()

    def left(self) -> float:
        return float("inf") if self._end is None else self._end - time.monotonic()

    def check(self, what: str) -> None:
        if self.stopped.is_set():
            raise NotDecided("the wait was cancelled")
        if self.left() <= 0:
            raise NotDecided(f"the deadline passed: {what}")

    def pause(self, seconds: float) -> None:
        self.stopped.wait(max(0.0, min(seconds, self.left())))


class _Retry(Exception):
    """No usable response; another attempt may have one."""

    def __init__(self, text: str, retry_after: float = 0.0) -> None:
        self.retry_after = retry_after
        super().__init__(text)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def _fetch(
    opener: urllib.request.OpenerDirector, request: urllib.request.Request, seconds: float
) -> dict[str, Any]:
    end = time.monotonic() + seconds
    try:
        try:
            with opener.open(request, timeout=seconds) as response:
                data = _read_all(response, end)
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error, _read_all(error, end)) from None
    except (OSError, http.client.HTTPException) as error:
        raise _Retry(f"{type(error).__name__}: {error}") from None
    try:
        body = json.loads(data)
    except ValueError:
        raise _Retry("the response is not JSON") from None
    if not isinstance(body, dict):
        raise InvalidResponse("the response is not a JSON object")
    return body


def _read_all(response: Any, end: float) -> bytes:
    """Read the whole body before `end`, however slowly it comes."""
    data = b""
    while chunk := response.read1(65536):
        data += chunk
        if len(data) > _MAX_RESPONSE_BYTES:
            raise InvalidResponse("the response is too large")
        if time.monotonic() > end:
            raise TimeoutError("the response took too long")
    stated = response.headers.get("Content-Length", "")
    if stated.isdecimal() and len(data) < int(stated):
        raise ConnectionError("the connection was cut within the response")
    return data


def _refusal(error: urllib.error.HTTPError, data: bytes) -> HoldpointError | _Retry:
    if error.code in _RETRY_STATUSES:
        after = error.headers.get("Retry-After") or ""
        return _Retry(f"HTTP {error.code}", float(after) if after.isdecimal() else 0.0)
    try:
        body = json.loads(data)
    except ValueError:
        body = {"detail": data[:200].decode("utf-8", "replace")}
    return Problem(error.code, body if isinstance(body, dict) else {})


def _decision(body: dict[str, Any]) -> Decision:
    """Return the decision of a response, once it is complete and its digest is right."""
    texts = {name: body.get(name) for name in ("id", "status", "arguments_digest")}
    if not all(isinstance(value, str) and value for value in texts.values()):
        raise InvalidResponse("the response has no id, status or arguments_digest")
    arguments = body.get("arguments")
    if body["status"] != "pending":
        if not isinstance(arguments, dict):
            raise InvalidResponse("the response has no arguments")
        if digest(arguments) != body["arguments_digest"]:
            raise InvalidResponse("the digest of the arguments is not the decision's digest")
    return Decision(
        id=body["id"],
        status=body["status"],
        arguments=arguments if isinstance(arguments, dict) else {},
        arguments_digest=body["arguments_digest"],
        edited=body.get("edited") is True,
        comment=str(body.get("comment") or ""),
        body=body,
    )


def _approval(decision: Decision) -> Decision:
    """Return `decision` if it is an approval; raise otherwise."""
    if not decision.approved:
        kind, reason = _ENDED[decision.status]
        raise kind(decision, decision.comment or reason)
    return decision


def _checked(decision: Decision, body: Mapping[str, Any]) -> Decision:
    """Return `decision` if it can be one about `body`."""
    if decision.status not in {"approved", *_ENDED}:
        raise InvalidResponse(f"the status {decision.status!r} is not known to this client")
    if decision.edited and not body.get("editable", True):
        raise InvalidResponse("a reviewer edited what is not editable")
    fixed = not decision.edited or "output" in body["action"]
    differs = decision.arguments_digest != digest(body["action"]["arguments"])
    if decision.approved and fixed and differs:
        raise InvalidResponse("other arguments were approved than the ones requested")
    return decision


def _quoted(approval_id: str) -> str:
    return urllib.parse.quote(approval_id, safe="")


def _as_json(value: Any) -> Any:
    try:
        canonical(value)
    except (TypeError, ValueError, RecursionError):
        return {"type": type(value).__name__}
    return value


async def _in_thread(call: Callable[[], T], stopped: threading.Event) -> T:
    """Run `call` in a thread of its own; the default executor has too few for many waits."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def deliver(value: T | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(cast("T", value))
        else:
            future.set_exception(error)

    def run() -> None:
        value: T | None = None
        error: BaseException | None = None
        try:
            value = call()
        except BaseException as caught:
            error = caught
        if not loop.is_closed():
            loop.call_soon_threadsafe(deliver, value, error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name="holdpoint", daemon=True).start()
    try:
        return await future
    finally:
        stopped.set()


# --- decorator and tool -------------------------------------------------------------------------


def requires_approval(
    *,
    name: str | None = None,
    risk: Risk = "high",
    editable: bool | Sequence[str] = True,
    key: Callable[..., str] | None = None,
    timeout: float | None = None,
    exclude: Collection[str] = ("self", "cls"),
    client: Client | None = None,
    **more: Any,
) -> Callable[[F], F]:
    """Let a function run only after approval, with the decided arguments.

    The arguments of a call must be JSON values; those named in `exclude` are not sent. `key` is
    called with the arguments and returns the key with which an approval is continued after a
    restart. The result, or the error that the function raised, is reported to the server.
    """

    def decorate(function: F) -> F:
        call = _Call(function, exclude)
        action = name or function.__qualname__
        fields = {"risk": risk, "editable": editable, **more}

        def request(bound: _Bound) -> dict[str, Any]:
            own_key = None if key is None else str(key(**bound.arguments))
            return {"key": own_key, "timeout": timeout, **fields}

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def approved_async(*args: Any, **kwargs: Any) -> Any:
                asker, bound = client or Client(), call.bind(args, kwargs)
                more = request(bound)
                decision = await asker.approve_async(action, bound.arguments, **more)
                positional, named = call.decided(bound, decision)
                try:
                    output = await function(*positional, **named)
                except BaseException as error:
                    await asyncio.to_thread(_report, asker, decision, None, error)
                    raise
                await asyncio.to_thread(_report, asker, decision, output, None)
                return output

            return cast("F", approved_async)

        @functools.wraps(function)
        def approved(*args: Any, **kwargs: Any) -> Any:
            asker, bound = client or Client(), call.bind(args, kwargs)
            decision = asker.approve(action, bound.arguments, **request(bound))
            positional, named = call.decided(bound, decision)
            try:
                output = function(*positional, **named)
            except BaseException as error:
                _report(asker, decision, None, error)
                raise
            _report(asker, decision, output, None)
            return output

        return cast("F", approved)

    return decorate


@dataclass(frozen=True)
class _Bound:
    """The arguments of a call: the ones that are sent, and the excluded ones."""

    arguments: dict[str, Any]
    excluded: dict[str, Any]


class _Call:
    """Turns calls of a function into JSON arguments, and back."""

    def __init__(self, function: Callable[..., Any], exclude: Collection[str]) -> None:
        self._signature = inspect.signature(function)
        self._exclude = exclude
        for each in self._signature.parameters.values():
            if each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL):
                raise TypeError(f"{each.name!r} must be passed by name to be shown to reviewers")

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Bound:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = self._signature.parameters[name].kind
            arguments.update(value if kind is inspect.Parameter.VAR_KEYWORD else {name: value})
        excluded = {name: arguments.pop(name) for name in self._exclude if name in arguments}
        # As JSON, so that a tuple is compared as the list that it becomes.
        return _Bound(json.loads(_encode(arguments)), excluded)

    def decided(self, bound: _Bound, decision: Decision) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the decided arguments as the function takes them."""
        if digest(decision.arguments) != decision.arguments_digest:
            raise InvalidResponse("the digest of the arguments is not the decision's digest")
        if set(bound.excluded) & set(decision.arguments):
            raise InvalidResponse("the decision sets an argument that was not sent")
        try:
            call = self._signature.bind(**bound.excluded, **decision.arguments)
        except TypeError as error:
            raise InvalidResponse(f"the decided arguments do not fit: {error}") from None
        return call.args, call.kwargs


def _report(client: Client, decision: Decision, output: Any, error: BaseException | None) -> None:
    """Report a result; a failure is logged, because the action has happened."""
    text = None if error is None else f"{type(error).__name__}: {error}"
    try:
        client.report(decision, ok=error is None, output=output, error=text)
    except HoldpointError as problem:
        _log.warning("the result of approval %s was not reported: %s", decision.id, problem)


def human_as_tool(
    *, client: Client | None = None, name: str = "human.ask", timeout: float | None = None
) -> Callable[[str, str], str]:
    """Return a function that asks a person a question; give it to an agent as a tool."""

    def ask_human(question: str, context: str = "") -> str:
        """Ask a person a question and return the answer. Use it when you need facts or a choice.

        Args:
            question: One clear question.
            context: What the person needs to know to answer, in Markdown.
        """
        decision = (client or Client()).approve(
            name,
            {"question": question, "answer": ""},
            title=question[:200],
            context=context or None,
            risk="low",
            editable=["/answer"],
            schema=_QUESTION_SCHEMA,
            instructions="Write your answer into the field, then approve.",
            timeout=timeout,
        )
        return str(decision.arguments.get("answer") or decision.comment)

    return ask_human


_QUESTION_SCHEMA = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "title": "Question"},
        "answer": {"type": "string", "title": "Answer"},
    },
    "required": ["question", "answer"],
}
