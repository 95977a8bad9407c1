"""Append lines to a file so that a crash leaves no half of one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Final

#: Longer lines are not appended by anybody.
_MAX_LINE_LENGTH: Final = 1_048_576


def append_lines(path: Path, lines: bytes) -> None:
    """Append complete lines and wait until they are on the disk; creates the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        _drop_torn_line(file)
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())


def _drop_torn_line(file: BinaryIO) -> None:
    """Truncate an incomplete last line that a crash left behind."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 1))
    if file.read() in (b"", b"\n"):
        return
    file.seek(max(0, size - _MAX_LINE_LENGTH))
    tail = file.read()
    file.truncate(size - len(tail) + tail.rfind(b"\n") + 1)
