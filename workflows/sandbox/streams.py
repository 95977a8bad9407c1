"""Incremental parsers of the child's output, with bounded buffers."""

from __future__ import annotations

from collections.abc import Iterator

from .denials import task_failure
from .values import CapturedOutput

_MAX_FRAME = 16 << 20
_MAX_AUDIT_LINE = 1 << 20


class FrameReader:
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
            if len(self._buffer) > _MAX_FRAME:
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


class LineReader:
    """Splits chunks into lines."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that `data` completes, without their newlines."""
        self._buffer += data
        if len(self._buffer) > _MAX_AUDIT_LINE:
            raise task_failure("The runtime's permission log is unreadable")
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        yield from lines
