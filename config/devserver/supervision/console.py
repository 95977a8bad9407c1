"""Terminal output of several processes; each line has the name of its process."""

import os
import sys
import threading
from typing import TextIO

COLORS = {"holdpoint": 36, "database": 35, "setup": 33, "web": 32, "workers": 34, "sweeper": 90}
WIDTH = max(map(len, COLORS))


class Console:
    """Writes whole lines, `name | text`, from any thread; coloured on a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._lock = threading.Lock()
        self._colored = self._stream.isatty() and not os.environ.get("NO_COLOR")

    def line(self, name: str, text: str) -> None:
        self._write(f"{self._label(name)} | {text}")

    def say(self, text: str) -> None:
        """Write a line of the supervisor."""
        self.line("holdpoint", text)

    def block(self, text: str) -> None:
        """Write lines without a name, between empty lines."""
        self._write(f"\n{text.rstrip()}\n")

    def _label(self, name: str) -> str:
        label = f"{name:<{WIDTH}}"
        return f"\x1b[{COLORS.get(name, 0)}m{label}\x1b[0m" if self._colored else label

    def _write(self, text: str) -> None:
        with self._lock:
            try:
                self._stream.write(text + "\n")
                self._stream.flush()
            except (BrokenPipeError, ValueError):
                return  # the terminal is closed; keep running
