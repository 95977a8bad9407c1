"""Capture what a tool prints, logs and reports, in a process of a cluster.

Several calls may run in one process, in threads of their own.  A context variable says to which
call a line belongs; lines of threads that a tool starts itself belong to none.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final

from .output import MAX_TEXT, Output, clean, tail

#: Seconds between two publications of the output of a call.
_INTERVAL: Final = 1.0
#: Seconds for the last publication.
_PATIENCE: Final = 10.0

Publish = Callable[[Output], object]


class Capture:
    """The output of one call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._text = ""
        self._progress: float | None = None
        self._changes = self._published = 0

    def write(self, text: str) -> None:
        """Add printed text, of which the end is kept."""
        with self._lock:
            self._text = tail(self._text + text, 2 * MAX_TEXT)
            self._changes += 1

    def report(self, share: float) -> None:
        """Set the progress."""
        with self._lock:
            self._progress = share
            self._changes += 1

    def publish(self, publish: Publish) -> None:
        """Publish the output if it has changed since the last time."""
        with self._lock:
            changes, text, progress = self._changes, self._text, self._progress
        if changes > self._published:
            publish(Output(clean(text), progress))
            self._published = changes


_current: ContextVar[Capture | None] = ContextVar("holdpoint_capture", default=None)


class _Stream:
    """A standard stream that also writes to the capture of the present call."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        capture = _current.get()
        if capture is not None:
            capture.write(text)
        return int(self._stream.write(text) or 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _LogHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        capture = _current.get()
        if capture is not None:
            capture.write(self.format(record) + "\n")


class _Redirection:
    """Replaces the standard streams of the process while at least one call runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = 0
        self._streams: dict[str, _Stream] = {}
        self._handler = _LogHandler()
        self._handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def begin(self) -> None:
        with self._lock:
            self._calls += 1
            if self._calls > 1:
                return
            for name in ("stdout", "stderr"):
                self._streams[name] = _Stream(getattr(sys, name))
                setattr(sys, name, self._streams[name])
            logging.getLogger().addHandler(self._handler)

    def end(self) -> None:
        with self._lock:
            self._calls -= 1
            if self._calls:
                return
            logging.getLogger().removeHandler(self._handler)
            for name, stream in self._streams.items():
                if getattr(sys, name) is stream:
                    setattr(sys, name, stream._stream)


_redirection = _Redirection()


@contextmanager
def capturing(publish: Publish) -> Iterator[Capture]:
    """Capture the output of this call, and publish it while it changes and at the end."""
    capture, stop = Capture(), threading.Event()
    token = _current.set(capture)
    _redirection.begin()
    publisher = threading.Thread(target=_publish, args=(capture, publish, stop), daemon=True)
    publisher.start()
    try:
        yield capture
    finally:
        _redirection.end()
        _current.reset(token)
        stop.set()
        publisher.join(_PATIENCE)


def _publish(capture: Capture, publish: Publish, stop: threading.Event) -> None:
    is_over = False
    while not is_over:
        is_over = stop.wait(_INTERVAL)
        # The result counts, also where its output is lost.
        with suppress(Exception):
            capture.publish(publish)
