"""Where traces and errors may be sent from; nothing happens unless the settings ask for it.

`config.observability.telemetry` puts real ones here.  Nothing of this imports a tracing library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

Span = Callable[[str, Mapping[str, str]], AbstractContextManager[object]]
Report = Callable[[BaseException], object]


class _Sinks:
    """What was put here, if anything."""

    span: Span | None = None
    report: Report | None = None


def use(*, span: Span | None = None, report: Report | None = None) -> None:
    """Send spans, or errors, there from now on."""
    _Sinks.span = span or _Sinks.span
    _Sinks.report = report or _Sinks.report


def span(name: str, attributes: Mapping[str, str]) -> AbstractContextManager[object]:
    """A piece of work with a beginning and an end."""
    return nullcontext() if _Sinks.span is None else _Sinks.span(name, attributes)


def report(error: BaseException) -> None:
    """An error that was dealt with here and that somebody should know of."""
    if _Sinks.report is not None:
        _Sinks.report(error)
