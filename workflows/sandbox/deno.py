"""TypeScript and JavaScript in Deno: one process per run, killed when it is done.

The child has no network access: its `fetch` calls the worker, which sends the request with
`workflows.common.outbound_http`. Deno's flags grant files and environment variables, and Landlock
enforces the file grants in the kernel. Deno's audit log lists every permission that the program
requested; the first one beyond the grants ends the run, even if the program catches the error.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from workflows.common import real_paths
from workflows.engine.policy.permissions import Operation
from workflows.engine.protocol.ports import PermissionEscalationNeeded, TaskFailed

from . import deno_setup, javascript
from .child import Child, Limits
from .code_request import CodeRequest, CodeResult, RunEnvironment, combined_output
from .denials import denial, is_unresolvable, path_denial, task_failure
from .fetching import Fetcher, NetworkFailed
from .rundir import exceeds_limits, record_child, run_directory
from .values import CapturedOutput, parsed_result

_RUNTIME_DATA_BYTES: Final = 640 << 20
# V8 reserves this amount at the start, and fails with less.
_MIN_DATA_BYTES: Final = 768 << 20
_POLL_SECONDS: Final = 0.05
_MAX_FRAME_BYTES: Final = 16 << 20
_MAX_AUDIT_LINE_BYTES: Final = 1 << 20
_COUNT_INTERVAL_SECONDS: Final = 0.25
# Allowance for writes of the runtime: compiled TypeScript, and wake-ups of its threads.
_RUNTIME_WRITE_BYTES: Final = 8 << 20
# Deno's Node layer reads these variables itself; the program did not request them.
_TEMPORARY_PLACEHOLDER: Final = "<TMP>"
_RUNTIME_ENV_PREFIX: Final = "NODE_"
_NOT_CAPABLE: Final = re.compile(r'Requires (\w+) access(?: to "([^"]*)")?')
_MEMORY_SIGNS: Final = ("out of memory", "memory allocation of", "heap limit", "bad_alloc")


def run_deno(request: CodeRequest, should_stop: Callable[[], bool]) -> CodeResult:
    """Run a TypeScript or JavaScript request. Raises as `workflows.sandbox.run_code` does."""
    started = time.monotonic()
    with run_directory(request.config.temp_root) as folder:
        environment = RunEnvironment.of(request, folder)
        run = _Run(environment, started, should_stop)
        home = folder / "deno"
        (home / deno_setup.EMITTED_CODE_DIR).mkdir(parents=True)
        child = run.start(home)
        try:
            record_child(folder, child.pid)
            value = run.follow(child)
        except (TaskFailed, PermissionEscalationNeeded) as fault:
            fault.logs = combined_output(run.stdout.text(), run.stderr.text())
            raise
        finally:
            child.end()
        took = time.monotonic() - started
        return CodeResult(value, run.stdout.text(), run.stderr.text(), took)


@dataclass
class _Run:
    """The worker's side of one run."""

    environment: RunEnvironment
    started: float
    should_stop: Callable[[], bool]

    def __post_init__(self) -> None:
        request = self.environment.request
        self.deadline = self.started + request.timeout_seconds
        self.stdout = CapturedOutput(request.config.max_output_bytes)
        self.stderr = CapturedOutput(request.config.max_output_bytes)
        # The marker is random, so that no output of the program can be taken for a frame.
        self.marker = f"\x1e{secrets.token_hex(16)}:"
        self.frames = _FrameReader(self.marker, self.stdout)
        self.audit = _LineReader()
        self.offset = 0
        self.last_line = request.code.count("\n") + 1
        self.received = 0
        self.counted = self.started
        self.fetcher = Fetcher(self.environment, self.deadline, self.should_stop)

    def start(self, home: Path) -> Child:
        request = self.environment.request
        names = javascript.input_names(request.inputs)
        candidates = javascript.forms(request.code, names, request.language)
        self.offset = candidates[-1].offset
        start = {
            "marker": self.marker,
            "forms": [form.message() for form in candidates],
            "inputs": request.inputs,
            "names": names,
            "env": self.environment.permissions.env_names,
        }
        message = json.dumps(start, allow_nan=False).encode()
        child = Child(
            deno_setup.command(self.environment),
            env=deno_setup.environment_variables(self.environment, home),
            cwd=str(self.environment.scratch),
            rules=deno_setup.landlock_rules(self.environment, home),
            limits=self._limits(),
            audit_variable=deno_setup.AUDIT_VARIABLE,
        )
        child.send(message + b"\n")
        return child

    def _limits(self) -> Limits:
        request = self.environment.request
        return Limits(
            data_bytes=max(_RUNTIME_DATA_BYTES + (request.memory_mb << 20), _MIN_DATA_BYTES),
            cpu_seconds=2 * math.ceil(request.timeout_seconds) + 1,
            file_bytes=request.config.max_file_bytes,
        )

    def follow(self, child: Child) -> Any:
        """Serve the child until it has a result; return the value or raise."""
        while True:
            self._check_deadline()
            self._check_disk(child)
            ended = child.exit_code() is not None
            for stream, data in child.pump(0 if ended else self._poll_timeout()):
                frame = self._handle_output(child, stream, data)
                if frame is not None:
                    return self._conclude(child, frame)
            if ended:
                self._conclude_without_result(child)

    def _poll_timeout(self) -> float:
        return max(min(_POLL_SECONDS, self.deadline - time.monotonic()), 0)

    def _check_deadline(self) -> None:
        if self.should_stop():
            raise task_failure("The program was stopped")
        if time.monotonic() >= self.deadline:
            seconds = self.environment.request.timeout_seconds
            raise task_failure(f"The program did not end within {seconds:g} seconds")

    def _check_disk(self, child: Child) -> None:
        """Enforce the limit over all files; the kernel limits only the size of each file."""
        config = self.environment.request.config
        if child.written() - self.received > config.max_file_bytes + _RUNTIME_WRITE_BYTES:
            raise task_failure("The program wrote more to disk than it may")
        now = time.monotonic()
        if now - self.counted < _COUNT_INTERVAL_SECONDS:
            return
        self.counted = now
        if exceeds_limits(self.environment.scratch, config.max_files):
            raise task_failure(
                f"The program made over {config.max_files} files, or folders too deep"
            )

    def _handle_output(self, child: Child, stream: str, data: bytes) -> dict[str, Any] | None:
        """Process output of the child; return a frame that ends the run."""
        self.received += len(data)
        if stream == "audit":
            self._check_audit(data)
        elif stream == "stderr":
            self.stderr.add(data)
        else:
            for line in self.frames.feed(data):
                frame = _frame(line)
                if frame.get("kind") != "fetch":
                    return frame
                self._check_audit(b"".join(child.drain("audit")))
                child.send(self._answer(frame))
        if self.stdout.total + self.stderr.total > self.environment.request.config.flood_bytes:
            raise task_failure("The program printed without end")
        return None

    def _conclude(self, child: Child, frame: dict[str, Any]) -> Any:
        self._finish_reading(child)
        if frame.get("kind") == "result":
            return parsed_result(str(frame.get("json")))
        line = javascript.user_code_line(str(frame.get("stack")), self.offset, self.last_line)
        name, message = str(frame.get("name")), str(frame.get("message"))
        wanted = _NOT_CAPABLE.match(message) if name == "NotCapable" else None
        if wanted is not None:
            # Some denials do not reach the audit log, only the error message.
            entry = {"permission": wanted[1], "value": wanted[2], "stack": [frame.get("stack")]}
            raise self._refusal(entry) or task_failure(message, line)
        raise task_failure(_error_summary(name, message), line)

    def _conclude_without_result(self, child: Child) -> None:
        for data in child.drain("stdout"):
            for line in self.frames.feed(data):
                frame = _frame(line)
                if frame.get("kind") != "fetch":
                    self._conclude(child, frame)
        self._finish_reading(child)
        stderr = self.stderr.text()
        if any(sign in stderr.lower() for sign in _MEMORY_SIGNS):
            raise task_failure(
                f"The program ran out of memory ({self.environment.request.memory_mb} MB)"
            )
        last = stderr.strip().splitlines()[:1]
        raise task_failure(": ".join(["The program ended without a result", *last])[:1000])

    def _finish_reading(self, child: Child) -> None:
        self._check_audit(b"".join(child.drain("audit")))
        for data in child.drain("stderr"):
            self.stderr.add(data)
            if self.stderr.total > self.environment.request.config.flood_bytes:
                break
        self.frames.finish()

    def _check_audit(self, data: bytes) -> None:
        for line in self.audit.feed(data):
            entry = _frame(line)
            refusal = self._refusal(entry)
            if refusal is not None:
                raise refusal

    def _refusal(self, entry: dict[str, Any]) -> Exception | None:
        """Return the exception for a permission that the program requested and does not have."""
        operation, value = str(entry.get("permission")), entry.get("value")
        stack = "\n".join(map(str, entry.get("stack") or ()))
        line = javascript.user_code_line(stack, self.offset, self.last_line)
        if operation in ("read", "write") and value is not None:
            return self._path_refusal(operation, str(value), line)  # type: ignore[arg-type]
        if operation == "env" and value is not None:
            if (
                str(value).startswith(_RUNTIME_ENV_PREFIX)
                or value in self.environment.permissions.env_names
            ):
                return None
        elif operation == "net":
            return task_failure("Only `fetch` in the main program reaches the network", line)
        return denial(self.environment, operation, value if value is None else str(value), line)

    def _path_refusal(self, operation: Operation, value: str, line: int | None) -> Exception | None:
        if value == _TEMPORARY_PLACEHOLDER:
            return task_failure(
                "A temporary file needs its folder: `makeTempFile({ dir: '.' })`", line
            )
        named = self.environment.scratch / value.removeprefix("file://")
        if is_unresolvable(Path(os.path.normpath(named))):
            # Not resolved: links there refer to the worker.
            return path_denial(self.environment, operation, Path(os.path.normpath(named)), line)
        try:
            path = real_paths.resolve(named)
        except (OSError, RuntimeError, ValueError):
            return task_failure(f"{value[:200]!r} is not a path that can be followed", line)
        if self.environment.allows(operation, path):
            return None
        return path_denial(self.environment, operation, path, line)

    def _answer(self, frame: dict[str, Any]) -> bytes:
        """Return the worker's reply to one `fetch`, as a line for the harness."""
        line = javascript.user_code_line(str(frame.get("stack")), self.offset, self.last_line)
        try:
            body = frame.get("body")
            response = self.fetcher.fetch(
                str(frame.get("method")),
                str(frame.get("url")),
                [(str(name), str(value)) for name, value in frame.get("headers") or ()],
                base64.b64decode(body) if isinstance(body, str) else None,
                line,
            )
        except (NetworkFailed, ValueError, TypeError) as error:
            return _line({"id": frame.get("id"), "error": str(error)})
        return _line(
            {
                "id": frame.get("id"),
                "status": response.status,
                "reason": response.reason,
                "url": response.url,
                "headers": response.headers,
                "body": base64.b64encode(response.body).decode("ascii"),
            }
        )


def _error_summary(name: str, message: str) -> str:
    """Summarize an error of the program in one line, without the excerpt of a syntax error."""
    if "SyntaxError: " in message[:40]:
        return "SyntaxError: " + message.partition("SyntaxError: ")[2].partition("\n")[0]
    return message if name == "Error" else f"{name}: {message}"


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _frame(line: bytes) -> dict[str, Any]:
    """Parse one line as a JSON object. User code can write such lines too: validate everything."""
    try:
        frame = json.loads(line)
    except (ValueError, RecursionError):
        frame = None
    if not isinstance(frame, dict):
        raise task_failure("The program garbled its own report")
    return frame


# --- the child's output ---------------------------------------------------------------------------


class _FrameReader:
    """Splits stdout into frames of the harness and output of the program.

    A frame is a newline, the marker, one line of JSON, a newline. All other bytes go to `output`.
    """

    def __init__(self, marker: str, output: CapturedOutput) -> None:
        self._begin = b"\n" + marker.encode("ascii")
        self._output, self._buffer, self._inside = output, bytearray(), False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the frames that `data` completes."""
        self._buffer += data
        while True:
            mark = b"\n" if self._inside else self._begin
            at = self._buffer.find(mark)
            if at < 0:
                break
            chunk = bytes(self._buffer[:at])
            del self._buffer[: at + len(mark)]
            if self._inside:
                yield chunk
            else:
                self._output.add(chunk)
            self._inside = not self._inside
        self._trim()

    def _trim(self) -> None:
        if self._inside:
            if len(self._buffer) > _MAX_FRAME_BYTES:
                raise task_failure("The result is too large")
            return
        # The last bytes may be the beginning of an incomplete marker.
        safe = max(len(self._buffer) - len(self._begin) + 1, 0)
        self._output.add(bytes(self._buffer[:safe]))
        del self._buffer[:safe]

    def finish(self) -> None:
        """Treat the remaining bytes as output: no frame can follow."""
        if not self._inside:
            self._output.add(bytes(self._buffer))
        self._buffer.clear()


class _LineReader:
    """Splits chunks into lines."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that `data` completes, without their newlines."""
        self._buffer += data
        if len(self._buffer) > _MAX_AUDIT_LINE_BYTES:
            raise task_failure("The runtime's permission log is unreadable")
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        yield from lines
