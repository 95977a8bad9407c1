"""A confined child process: restricted start, bounded output, guaranteed end.

Before the first instruction of the child, it has its own session and process group, an environment
without inherited variables, and Landlock rules if the kernel has Landlock. Resource limits are set
before the child receives a program; until then it runs only Deno's own code.
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Literal

from workflows.common import landlock

from . import reaper

Stream = Literal["stdout", "stderr", "audit"]

_CHUNK: Final = 65_536
_SPAWNING: Final = threading.Lock()


@dataclass(frozen=True)
class Limits:
    """Resource limits of the child. Memory and file size in bytes, CPU in seconds."""

    data_bytes: int
    cpu_seconds: int
    file_bytes: int
    open_files: int = 128

    def apply(self, pid: int) -> None:
        """Set the limits on process `pid` (Linux only)."""
        if not hasattr(resource, "prlimit"):
            return
        for kind, limit in (
            (resource.RLIMIT_DATA, self.data_bytes),
            (resource.RLIMIT_CPU, self.cpu_seconds),
            (resource.RLIMIT_FSIZE, self.file_bytes),
            (resource.RLIMIT_NOFILE, self.open_files),
            (resource.RLIMIT_CORE, 0),
        ):
            with contextlib.suppress(ProcessLookupError):
                hard = resource.prlimit(pid, kind)[1]
                low = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
                resource.prlimit(pid, kind, (low, low))


class Child:
    """A running child with stdin, stdout, stderr and an audit pipe, all non-blocking here."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        rules: landlock.LandlockRules | None,
        limits: Limits,
        audit_variable: str,
    ) -> None:
        self._selector = selectors.DefaultSelector()
        self._outgoing = bytearray()
        audit_read, audit_write = os.pipe()
        self._audit = os.fdopen(audit_read, "rb", buffering=0)
        environment = {**env, audit_variable: f"/dev/fd/{audit_write}"}

        def spawn() -> subprocess.Popen[bytes]:
            return _spawn(argv, environment, cwd)

        try:
            # No other child may be started while the audit pipe is inheritable.
            with _SPAWNING:
                os.set_inheritable(audit_write, True)  # noqa: FBT003 - the standard library's own signature
                try:
                    self._process = landlock.run_restricted(rules, spawn) if rules else spawn()
                finally:
                    os.close(audit_write)
        except BaseException:
            self._audit.close()
            self._selector.close()
            raise
        reaper.watch(self._process.pid, group=True)
        limits.apply(self._process.pid)
        self._watch()

    def _watch(self) -> None:
        stdin, stdout, stderr = self._pipes()
        os.set_blocking(stdin.fileno(), False)
        for stream, name in ((stdout, "stdout"), (stderr, "stderr"), (self._audit, "audit")):
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, name)

    def _pipes(self) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
        process = self._process
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise RuntimeError("the child was started without its pipes")
        return process.stdin, process.stdout, process.stderr

    @property
    def pid(self) -> int:
        """The process id, which is also its process group."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """The exit code once the child has ended, negative for a signal; None while it runs."""
        return self._process.poll()

    def written(self) -> int:
        """Return the bytes written to files and pipes; 0 if the system does not count them."""
        try:
            counters = Path(f"/proc/{self.pid}/io").read_text(encoding="ascii")
        except OSError:
            return 0
        return int(counters.partition("wchar:")[2].split()[0])

    def send(self, data: bytes) -> None:
        """Queue `data` for the child's stdin; `pump` writes it."""
        self._outgoing += data
        self._write()

    def pump(self, timeout: float) -> Iterator[tuple[Stream, bytes]]:
        """Transfer bytes for at most `timeout` seconds; yield the output that arrived."""
        for key, events in self._selector.select(timeout):
            if events & selectors.EVENT_WRITE:
                self._write()
                continue
            data = _read(key.fd)
            if data:
                yield key.data, data
            elif data is not None:
                self._selector.unregister(key.fileobj)

    def drain(self, stream: Stream) -> Iterator[bytes]:
        """Yield the output that is available in one pipe now."""
        _, stdout, stderr = self._pipes()
        fd = {"stdout": stdout, "stderr": stderr, "audit": self._audit}[stream].fileno()
        while data := _read(fd):
            yield data

    def _write(self) -> None:
        stdin = self._pipes()[0]
        try:
            sent = os.write(stdin.fileno(), self._outgoing[:_CHUNK]) if self._outgoing else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            # The child closed its stdin; the caller notices the missing result.
            self._outgoing.clear()
            sent = 0
        del self._outgoing[:sent]
        waiting = stdin in self._selector.get_map()
        if self._outgoing and not waiting:
            self._selector.register(stdin, selectors.EVENT_WRITE)
        elif waiting and not self._outgoing:
            self._selector.unregister(stdin)

    def end(self) -> None:
        """Kill the whole process group, wait for the child, close every pipe. Idempotent."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            reaper.forget(self._process.pid)
            self._process.wait()
        else:
            reaper.forget(self._process.pid)
        self._selector.close()
        for stream in (*self._pipes(), self._audit):
            with contextlib.suppress(OSError):
                stream.close()


def _spawn(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> subprocess.Popen[bytes]:
    # close_fds would close the audit pipe; Python's own descriptors are never inherited anyway.
    return subprocess.Popen(
        argv,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        close_fds=False,
        start_new_session=True,
        env=env,
        cwd=cwd,
    )


def _read(fd: int) -> bytes | None:
    """Return the next bytes, b"" at the end, None when none are available."""
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""
