"""Hooks for traces and error reports; they do nothing unless the settings enable them.

`config.observability.telemetry` installs the hooks. This module imports no tracing library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

Span = Callable[[str, Mapping[str, str]], AbstractContextManager[object]]
Report = Callable[[BaseException], object]


class _Sinks:
    """The installed hooks."""

    span: Span | None = None
    report: Report | None = None


def use(*, span: Span | None = None, report: Report | None = None) -> None:
    """Install hooks for spans and errors."""
    _Sinks.span = span or _Sinks.span
    _Sinks.report = report or _Sinks.report


def span(name: str, attributes: Mapping[str, str]) -> AbstractContextManager[object]:
    """Return a context manager that records a span, if a hook is installed."""
    return nullcontext() if _Sinks.span is None else _Sinks.span(name, attributes)


def report(error: BaseException) -> None:
    """Report an error that was handled, if a hook is installed."""
    if _Sinks.report is not None:
        _Sinks.report(error)
