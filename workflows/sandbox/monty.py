"""Python in Monty, an interpreter whose only access to the system is through the worker.

Every file, environment or network call of the program pauses the interpreter. The worker checks the
call against the permission set, performs it and resumes the program. The first call beyond the
grants ends the run; the program cannot catch that.
"""

from __future__ import annotations

import keyword
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic_monty import (
    FunctionSnapshot,
    MontyComplete,
    MontyConversionError,
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    MontySession,
    MontySyntaxError,
    NameLookupSnapshot,
    ResourceLimits,
    SourceRange,
    SyncSnapshot,
)

from workflows.engine.protocol.ports import PermissionEscalationNeeded, TaskFailed

from .code_request import CodeRequest, CodeResult, RunEnvironment, combined_output
from .denials import denial, task_failure
from .fetching import Fetcher, NetworkFailed
from .host_files import HostFiles
from .monty_pool import Watchdog, session
from .rundir import run_directory
from .values import CapturedOutput, python_result

_MAX_RECURSION: Final = 500
_MAX_HOST_CALLS: Final = 20_000
_MAX_RANDOM_BYTES: Final = 1 << 20
_WATCHDOG_GRACE_SECONDS: Final = 0.2
_SLEEPS: Final = frozenset(("time.sleep", "asyncio.sleep", "system.sleep", "system.async_sleep"))
_NOT_HANDLED: Final = object()


def run_monty(request: CodeRequest, should_stop: Callable[[], bool]) -> CodeResult:
    """Run a Python request. Raises as `workflows.sandbox.run_code` does."""
    started = time.monotonic()
    with run_directory(request.config.temp_root) as folder:
        environment = RunEnvironment.of(request, folder)
        with session(_limits(request), request.timeout_seconds) as worker:
            deadline = started + request.timeout_seconds
            run = _Run(environment, deadline, should_stop)
            with Watchdog(worker, deadline + _WATCHDOG_GRACE_SECONDS, run.must_end) as watchdog:
                try:
                    value = _value(worker, run, watchdog)
                except (TaskFailed, PermissionEscalationNeeded) as fault:
                    fault.logs = run.printed()
                    raise
        took = time.monotonic() - started
        return CodeResult(value, run.stdout.text(), run.stderr.text(), took)


def _limits(request: CodeRequest) -> ResourceLimits:
    return {
        "max_feed_duration_secs": request.timeout_seconds,
        "max_memory": request.memory_mb << 20,
        "max_recursion_depth": _MAX_RECURSION,
        "max_suspensions": _MAX_HOST_CALLS,
    }


def _value(worker: MontySession, run: _Run, watchdog: Watchdog) -> Any:
    try:
        return python_result(run.drive(worker))
    except MontyError as error:
        if watchdog.reason == "stopped":
            raise run.stopped() from None
        if watchdog.reason == "late":
            raise run.too_late() from None
        raise run.explain(error) from None


class _Run:
    """The worker's side of one run."""

    def __init__(
        self, environment: RunEnvironment, deadline: float, should_stop: Callable[[], bool]
    ) -> None:
        self._environment, self._deadline, self._should_stop = environment, deadline, should_stop
        config = environment.request.config
        self.stdout, self.stderr = (CapturedOutput(config.max_output_bytes) for _ in range(2))
        self._files = HostFiles(environment)
        self._fetcher = Fetcher(environment, deadline, should_stop)
        self._source = environment.request.code.encode()
        self._line: int | None = None
        self._flooded = False

    def printed(self) -> str:
        """Return the output of the program so far."""
        return combined_output(self.stdout.text(), self.stderr.text())

    def must_end(self) -> bool:
        """Whether to kill the program now for another reason than its deadline."""
        return self._flooded or self._should_stop()

    def drive(self, worker: MontySession) -> Any:
        """Run the program and serve its calls; return the value of the last expression."""
        request = self._environment.request
        snapshot = worker.feed_start(
            request.code,
            inputs=_variables(request.inputs),
            external_lookup={"fetch": _placeholder},
            print_callback=self._print,
            cwd=str(self._environment.scratch),
        )
        while not isinstance(snapshot, MontyComplete):
            if time.monotonic() >= self._deadline:
                raise self.too_late()
            if self.must_end():
                raise self.stopped()
            self._line = self._files.line = self._line_of(snapshot.position)
            snapshot = self._answer(snapshot)
        return snapshot.output

    def _print(self, stream: str, text: str) -> None:
        (self.stdout if stream == "stdout" else self.stderr).add(text.encode("utf-8", "replace"))
        printed = self.stdout.total + self.stderr.total
        self._flooded = printed > self._environment.request.config.flood_bytes

    def _line_of(self, position: SourceRange) -> int | None:
        if position.filename != "<python-input-0>":
            return None
        return self._source[: position.start].count(b"\n") + 1

    def _answer(self, snapshot: SyncSnapshot) -> SyncSnapshot:
        """Do what the program asked for and let it go on."""
        if not isinstance(snapshot, FunctionSnapshot):
            if isinstance(snapshot, NameLookupSnapshot):
                return snapshot.resume_auto()
            raise task_failure("The program waits for something that never comes", self._line)
        try:
            result = self._call(snapshot.function_name, snapshot.args, snapshot.kwargs)
        except (OSError, UnicodeError, TypeError, ValueError, ArithmeticError) as error:
            return snapshot.resume({"exception": _sanitized(error)})
        if result is not _NOT_HANDLED:
            return snapshot.resume({"return_value": result})
        if snapshot.is_os_function:
            return snapshot.resume_not_handled()
        unknown = NameError(f"name {snapshot.function_name!r} is not defined")
        return snapshot.resume({"exception": unknown})

    def _call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "fetch":
            return self._fetch(*args, **kwargs)
        if name in _SLEEPS:
            return self._sleep(float(args[0]))
        if name == "os.getenv":
            return self._getenv(*args)
        if name == "os.environ":
            return self._environment.granted_env()
        if name == "os.urandom":
            return os.urandom(min(int(args[0]), _MAX_RANDOM_BYTES))
        operation = self._files.operations.get(name)
        return _NOT_HANDLED if operation is None else operation(*args, **kwargs)

    def _sleep(self, seconds: float) -> None:
        until = min(time.monotonic() + seconds, self._deadline)
        pause = threading.Event()
        while (left := until - time.monotonic()) > 0 and not self._should_stop():
            pause.wait(min(left, 0.05))
        if time.monotonic() >= self._deadline:
            raise self.too_late()

    def _getenv(self, name: str, default: str | None = None) -> str | None:
        if default is not None and not isinstance(default, str):
            raise TypeError("the default of getenv must be a str")
        if name not in self._environment.permissions.env_names:
            raise denial(self._environment, "env", name, self._line)
        return self._environment.granted_env().get(name, default)

    def _fetch(
        self,
        url: str,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: str | bytes | None = None,
    ) -> dict[str, Any]:
        _check_fetch(url, method, headers, body)
        data = body.encode() if isinstance(body, str) else body
        try:
            pairs = (headers or {}).items()
            answer = self._fetcher.fetch(method, url, pairs, data, self._line)
        except NetworkFailed as error:
            raise OSError(str(error)) from None
        return {
            "status": answer.status,
            "reason": answer.reason,
            "url": answer.url,
            "headers": dict(answer.headers),
            "text": answer.text(),
            "content": answer.body,
        }

    def stopped(self) -> Exception:
        """Return the failure of a program that `must_end` ended."""
        reason = "The program printed without end" if self._flooded else "The program was stopped"
        return task_failure(reason)

    def too_late(self) -> Exception:
        """Return the failure of a program that exceeded its timeout."""
        seconds = self._environment.request.timeout_seconds
        return task_failure(f"The program did not end within {seconds:g} seconds")

    def explain(self, error: MontyError) -> Exception:
        """Convert an error of the program into a TaskFailed with its line."""
        if isinstance(error, MontyCrashedError):
            return task_failure("The program crashed its interpreter")
        if isinstance(error, MontyConversionError):
            return task_failure(f"The inputs cannot be handed to the program: {error}")
        if not isinstance(error, MontyRuntimeError | MontySyntaxError):
            return task_failure(str(error))
        message = error.display("type-msg")[:4000]
        if message.startswith("MemoryError"):
            return task_failure(
                f"The program ran out of memory ({self._environment.request.memory_mb} MB)"
            )
        if message.startswith("TimeoutError: feed time limit"):
            return self.too_late()
        frames = error.traceback()
        return task_failure(message, frames[-1].line if frames else None)


def _placeholder(*_: Any, **__: Any) -> None:
    """Placeholder for the name `fetch` in the program; `_call` serves the calls."""


def _check_fetch(url: object, method: object, headers: object, body: object) -> None:
    """Raise TypeError unless the arguments match the declaration of `fetch`."""
    if not isinstance(url, str) or not isinstance(method, str):
        raise TypeError("fetch: url and method must be str")
    if body is not None and not isinstance(body, str | bytes):
        raise TypeError("fetch: body must be str or bytes")
    if headers is None:
        return
    if not isinstance(headers, Mapping):
        raise TypeError("fetch: headers must be a dict")
    if not all(isinstance(text, str) for pair in headers.items() for text in pair):
        raise TypeError("fetch: names and values of headers must be str")


def _sanitized(error: Exception) -> Exception:
    """Return `error` without details of the host, as a type that the interpreter knows."""
    if isinstance(error, OSError) and error.strerror:
        named = f": {error.filename!r}" if error.filename else ""
        message = f"[Errno {error.errno}] {error.strerror}{named}"
        os_errors = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)
        kind = next(
            (kind for kind in (*os_errors, PermissionError) if isinstance(error, kind)), OSError
        )
        return kind(message)
    if isinstance(error, UnicodeError):
        return ValueError(str(error))
    return error


def _variables(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs whose names can be variables, and all inputs as `inputs`."""
    usable = {
        name: value
        for name, value in inputs.items()
        if name.isidentifier() and not keyword.iskeyword(name)
    }
    return {"inputs": dict(inputs), **usable}
