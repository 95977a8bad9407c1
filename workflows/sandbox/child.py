"""One confined child process: started behind every wall, read within bounds, ended for sure.

The walls that stand before the first instruction of the child: its own session and process group,
an environment made from nothing, Landlock where the kernel has it. The resource limits follow
before the child is sent anything to run. Only Deno's own code runs in between.
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

from . import landlock, reaper

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
        """Set them on process `pid`, where the system can (Linux)."""
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
        fence: landlock.Fence | None,
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
            # The audit pipe is inheritable for a moment; no other child may be started then.
            with _SPAWNING:
                os.set_inheritable(audit_write, True)  # noqa: FBT003 - the standard library's own signature
                try:
                    self._process = landlock.confined(fence, spawn) if fence else spawn()
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
        """Bytes it has written, to files and pipes alike; 0 where the system keeps no count."""
        try:
            told = Path(f"/proc/{self.pid}/io").read_text(encoding="ascii")
        except OSError:
            return 0
        return int(told.partition("wchar:")[2].split()[0])

    def send(self, data: bytes) -> None:
        """Queue `data` for the child's stdin; `pump` moves it."""
        self._outgoing += data
        self._write()

    def pump(self, timeout: float) -> Iterator[tuple[Stream, bytes]]:
        """Move bytes for at most `timeout` seconds; yields what arrived, then returns."""
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
        """What is left in one pipe right now."""
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
            # The reader is gone; the missing result tells the rest.
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
    """The next bytes, b"" at the end, None when there are none yet."""
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""
