"""TypeScript and JavaScript in Deno: one process per run, killed when it is done.

The child gets no network at all: its `fetch` asks the worker, which answers through
`workflows.common.outbound_http`. Files and environment are granted by Deno's flags, and Landlock
repeats the file grants one level below. Deno's audit log names every permission the program
asked for; the first one beyond the grants ends the run, whether or not the program catches the
error.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from workflows.common import real_paths
from workflows.engine.permissions import Operation
from workflows.engine.ports import PermissionEscalationNeeded, TaskFailed

from . import deno_setup, javascript
from .child import Child, Limits
from .contract import CodeRequest, CodeResult, Surroundings, one_text
from .denials import denied, denied_path, failed, is_never
from .fetching import Fetcher, NetworkFailed
from .rundir import is_overgrown, note_child, run_folder
from .streams import FrameReader, LineReader
from .values import Printed, parsed_result

_RUNTIME_DATA_BYTES: Final = 640 << 20
# V8 reserves this much before it runs anything; less makes it fail at the start.
_LEAST_DATA_BYTES: Final = 768 << 20
_POLL_SECONDS: Final = 0.05
_COUNT_SECONDS: Final = 0.25
# What the runtime itself writes: the code it makes of TypeScript, and wake-ups of its threads.
_OWN_BYTES: Final = 8 << 20
# Deno's Node layer looks these up by itself; asking for them is not the program's doing.
_SOME_TEMPORARY: Final = "<TMP>"
_OWN_ENV: Final = "NODE_"
_NOT_CAPABLE: Final = re.compile(r'Requires (\w+) access(?: to "([^"]*)")?')
_MEMORY_SIGNS: Final = ("out of memory", "memory allocation of", "heap limit", "bad_alloc")


def run_deno(request: CodeRequest, should_stop: Callable[[], bool]) -> CodeResult:
    """Run a TypeScript or JavaScript request. Raises as `workflows.sandbox.run_code` does."""
    started = time.monotonic()
    with run_folder(request.config.temp_root) as folder:
        around = Surroundings.of(request, folder)
        run = _Run(around, started, should_stop)
        home = folder / "deno"
        (home / deno_setup.EMITTED).mkdir(parents=True)
        child = run.start(home)
        try:
            note_child(folder, child.pid)
            value = run.follow(child)
        except (TaskFailed, PermissionEscalationNeeded) as fault:
            fault.logs = one_text(run.stdout.text(), run.stderr.text())
            raise
        finally:
            child.end()
        took = time.monotonic() - started
        return CodeResult(value, run.stdout.text(), run.stderr.text(), took)


@dataclass
class _Run:
    """The worker's side of one run."""

    around: Surroundings
    started: float
    should_stop: Callable[[], bool]

    def __post_init__(self) -> None:
        request = self.around.request
        self.deadline = self.started + request.timeout_seconds
        self.stdout = Printed(request.config.max_output_bytes)
        self.stderr = Printed(request.config.max_output_bytes)
        # No part of the marker can be guessed, so nothing printed can be taken for a frame.
        self.marker = f"\x1e{secrets.token_hex(16)}:"
        self.frames = FrameReader(self.marker, self.stdout)
        self.audit = LineReader()
        self.offset = 0
        self.last_line = request.code.count("\n") + 1
        self.received = 0
        self.counted = self.started
        self.fetcher = Fetcher(self.around, self.deadline, self.should_stop)

    def start(self, home: Path) -> Child:
        request = self.around.request
        names = javascript.input_names(request.inputs)
        dressed = javascript.forms(request.code, names, request.language)
        self.offset = dressed[-1].offset
        start = {
            "marker": self.marker,
            "forms": [form.message() for form in dressed],
            "inputs": request.inputs,
            "names": names,
            "env": self.around.permissions.env_names,
        }
        message = json.dumps(start, allow_nan=False).encode()
        child = Child(
            deno_setup.command(self.around),
            env=deno_setup.environment(self.around, home),
            cwd=str(self.around.scratch),
            fence=deno_setup.fence(self.around, home),
            limits=self._limits(),
            audit_variable=deno_setup.AUDIT_VARIABLE,
        )
        child.send(message + b"\n")
        return child

    def _limits(self) -> Limits:
        request = self.around.request
        return Limits(
            data_bytes=max(_RUNTIME_DATA_BYTES + (request.memory_mb << 20), _LEAST_DATA_BYTES),
            cpu_seconds=2 * math.ceil(request.timeout_seconds) + 1,
            file_bytes=request.config.max_file_bytes,
        )

    def follow(self, child: Child) -> Any:
        """Serve the child until it has a result; returns the value or raises."""
        while True:
            self._check_clock()
            self._check_disk(child)
            ended = child.exit_code() is not None
            for stream, data in child.pump(0 if ended else self._patience()):
                frame = self._take(child, stream, data)
                if frame is not None:
                    return self._conclude(child, frame)
            if ended:
                self._conclude_without_result(child)

    def _patience(self) -> float:
        return max(min(_POLL_SECONDS, self.deadline - time.monotonic()), 0)

    def _check_clock(self) -> None:
        if self.should_stop():
            raise failed("The program was stopped")
        if time.monotonic() >= self.deadline:
            seconds = self.around.request.timeout_seconds
            raise failed(f"The program did not end within {seconds:g} seconds")

    def _check_disk(self, child: Child) -> None:
        """A limit for each file is the kernel's; what all of them take together is watched here."""
        config = self.around.request.config
        if child.written() - self.received > config.max_file_bytes + _OWN_BYTES:
            raise failed("The program wrote more to disk than it may")
        now = time.monotonic()
        if self.around.keeps_scratch or now - self.counted < _COUNT_SECONDS:
            return
        self.counted = now
        if is_overgrown(self.around.scratch, config.max_files):
            raise failed(f"The program made over {config.max_files} files, or folders too deep")

    def _take(self, child: Child, stream: str, data: bytes) -> dict[str, Any] | None:
        """Use what arrived; a frame that ends the run is returned."""
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
        if self.stdout.total + self.stderr.total > self.around.request.config.flood_bytes:
            raise failed("The program printed without end")
        return None

    def _conclude(self, child: Child, frame: dict[str, Any]) -> Any:
        self._finish_reading(child)
        if frame.get("kind") == "result":
            return parsed_result(str(frame.get("json")))
        line = javascript.line_of(str(frame.get("stack")), self.offset, self.last_line)
        name, message = str(frame.get("name")), str(frame.get("message"))
        wanted = _NOT_CAPABLE.match(message) if name == "NotCapable" else None
        if wanted is not None:
            # Some refusals never reach the audit log; the error is the only one to tell.
            entry = {"permission": wanted[1], "value": wanted[2], "stack": [frame.get("stack")]}
            raise self._refusal(entry) or failed(message, line)
        raise failed(_told(name, message), line)

    def _conclude_without_result(self, child: Child) -> None:
        for data in child.drain("stdout"):
            for line in self.frames.feed(data):
                frame = _frame(line)
                if frame.get("kind") != "fetch":
                    self._conclude(child, frame)
        self._finish_reading(child)
        told = self.stderr.text()
        if any(sign in told.lower() for sign in _MEMORY_SIGNS):
            raise failed(f"The program ran out of memory ({self.around.request.memory_mb} MB)")
        last = told.strip().splitlines()[:1]
        raise failed(": ".join(["The program ended without a result", *last])[:1000])

    def _finish_reading(self, child: Child) -> None:
        self._check_audit(b"".join(child.drain("audit")))
        for data in child.drain("stderr"):
            self.stderr.add(data)
            if self.stderr.total > self.around.request.config.flood_bytes:
                break
        self.frames.finish()

    def _check_audit(self, data: bytes) -> None:
        for line in self.audit.feed(data):
            entry = _frame(line)
            refusal = self._refusal(entry)
            if refusal is not None:
                raise refusal

    def _refusal(self, entry: dict[str, Any]) -> Exception | None:
        """The exception for a permission the program asked for and does not have."""
        operation, value = str(entry.get("permission")), entry.get("value")
        stack = "\n".join(map(str, entry.get("stack") or ()))
        line = javascript.line_of(stack, self.offset, self.last_line)
        if operation in ("read", "write") and value is not None:
            return self._path_refusal(operation, str(value), line)  # type: ignore[arg-type]
        if operation == "env" and value is not None:
            if str(value).startswith(_OWN_ENV) or value in self.around.permissions.env_names:
                return None
        elif operation == "net":
            return failed("Only `fetch` in the main program reaches the network", line)
        return denied(self.around, operation, value if value is None else str(value), line)

    def _path_refusal(self, operation: Operation, value: str, line: int | None) -> Exception | None:
        if value == _SOME_TEMPORARY:
            return failed("A temporary file needs its folder: `makeTempFile({ dir: '.' })`", line)
        named = self.around.scratch / value.removeprefix("file://")
        if is_never(Path(os.path.normpath(named))):
            # Not resolved: there are links in there that mean the worker.
            return denied_path(self.around, operation, Path(os.path.normpath(named)), line)
        try:
            path = real_paths.resolve(named)
        except (OSError, RuntimeError, ValueError):
            return failed(f"{value[:200]!r} is not a path that can be followed", line)
        if self.around.allows(operation, path):
            return None
        return denied_path(self.around, operation, path, line)

    def _answer(self, frame: dict[str, Any]) -> bytes:
        """The worker's reply to one `fetch`, as a line for the harness."""
        line = javascript.line_of(str(frame.get("stack")), self.offset, self.last_line)
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


def _told(name: str, message: str) -> str:
    """An error of the program in one phrase. A parser's error comes with a drawing, left out."""
    if "SyntaxError: " in message[:40]:
        return "SyntaxError: " + message.partition("SyntaxError: ")[2].partition("\n")[0]
    return message if name == "Error" else f"{name}: {message}"


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _frame(line: bytes) -> dict[str, Any]:
    """One line of JSON that must be an object; user code can write them too, so nothing is sure."""
    try:
        frame = json.loads(line)
    except (ValueError, RecursionError):
        frame = None
    if not isinstance(frame, dict):
        raise failed("The program garbled its own report")
    return frame
