"""Logging through structlog: readable lines in development, one JSON object per line in production.

Code may use `structlog.get_logger()` or the standard `logging`; both are formatted alike.
"""

import re
import sys
from typing import Any, Final

import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, Processor

#: The token in the path of an answer link decides a review.
_ANSWER_TOKEN: Final = re.compile(r"(/answer/)[^/\s?#\"']+")


def hide_answer_links(text: str) -> str:
    """Return a path, or a text with paths, without the tokens of answer links."""
    return _ANSWER_TOKEN.sub(r"\1…", text)


def _hide_answer_links(logger: Any, method: str, event: EventDict) -> EventDict:
    """Change the texts of a line: Django logs the path of a failed or refused request."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = hide_answer_links(value)
    return event


def shared_processors() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.stdlib.ExtraAdder(),
        _hide_answer_links,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.UnicodeDecoder(),
    ]


def logging_config(*, level: str, style: str) -> dict[str, Any]:
    """Return a `dictConfig` for `style` "json" or "console"; configures structlog too."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared_processors(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structlog": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": shared_processors(),
                "processors": _rendering(style),
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structlog"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django.server": {"handlers": [], "propagate": True},
            "django.request": {"level": "ERROR"},
            # A line per request: for machines that collect lines, not for a terminal.
            "config.observability.request_log": {"level": level if style == "json" else "WARNING"},
            # Each sign-in is three lines of it; failures are warnings.
            "axes": {"level": "WARNING"},
            "daphne": {"level": "WARNING"},
            "httpx": {"level": "WARNING"},
            "mcp": {"level": "WARNING"},
        },
    }


def _rendering(style: str) -> list[Processor]:
    """Format tracebacks without local variables, because they may contain users' data."""
    drop_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if style == "json":
        return [
            drop_meta,
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            structlog.processors.JSONRenderer(sort_keys=True, default=str),
        ]
    console = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    return [drop_meta, console]
