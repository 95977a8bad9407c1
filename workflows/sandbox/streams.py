"""The child's output, taken apart while it arrives, never holding more than a bound."""

from __future__ import annotations

from collections.abc import Iterator

from .denials import failed
from .values import Printed

_MAX_FRAME = 16 << 20
_MAX_AUDIT_LINE = 1 << 20


class FrameReader:
    """Splits stdout into the harness's frames and what the program printed itself.

    A frame is a newline, the marker, one line of JSON, a newline. All else goes to `printed`.
    """

    def __init__(self, marker: str, printed: Printed) -> None:
        self._begin = b"\n" + marker.encode("ascii")
        self._printed, self._buffer, self._inside = printed, bytearray(), False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The frames that `data` completes."""
        self._buffer += data
        while True:
            mark = b"\n" if self._inside else self._begin
            at = self._buffer.find(mark)
            if at < 0:
                break
            taken = bytes(self._buffer[:at])
            del self._buffer[: at + len(mark)]
            if self._inside:
                yield taken
            else:
                self._printed.add(taken)
            self._inside = not self._inside
        self._trim()

    def _trim(self) -> None:
        if self._inside:
            if len(self._buffer) > _MAX_FRAME:
                raise failed("The result is too large")
            return
        # The last bytes may be the beginning of a marker that is still under way.
        safe = max(len(self._buffer) - len(self._begin) + 1, 0)
        self._printed.add(bytes(self._buffer[:safe]))
        del self._buffer[:safe]

    def finish(self) -> None:
        """What is left was printed: no frame can follow."""
        if not self._inside:
            self._printed.add(bytes(self._buffer))
        self._buffer.clear()


class LineReader:
    """Whole lines out of arbitrary chunks."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that `data` completes, without their newline."""
        self._buffer += data
        if len(self._buffer) > _MAX_AUDIT_LINE:
            raise failed("The runtime's permission log is unreadable")
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        yield from lines
