"""Logging through structlog: readable lines in development, one JSON object per line in production.

Code may use `structlog.get_logger()` or the standard `logging`; both are formatted alike.
"""

import re
import sys
from typing import Any, Final

import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import Processor

#: A character of an address in a rendered line; JSON escapes those that are not ASCII.
_CHAR: Final = r"(?:[^\s\"\\<>\x1b]|\\u[0-9a-f]{4})"
#: What is hidden behind the first group of each: queries (codes and states of sign-ins, texts of
#: searches), answer links, links for new passwords, addresses of chat hooks, passwords in
#: addresses, and API tokens.
_SECRETS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"([^\s\[(]\?){_CHAR}+",
        rf"(/answer/){_CHAR}+",
        rf"(/new-password/[^\s/]+/){_CHAR}+",
        rf"(hooks\.slack[\w.-]*/\w+/){_CHAR}+",
        rf"(/webhooks/[0-9]{{15,}}/|/webhookb2/){_CHAR}+",
        r"(/hooks/)[a-z0-9]{26}(?![\w-])",
        r"(://)[^\s/:@\"'\\]*:[^\s/@\"'\\]+(?=@)",
        r"(hp_)[A-Za-z0-9]{8}_[\w-]{20,}",
    )
)


def hide_secrets(text: str) -> str:
    """Return a text without the secrets that addresses and tokens in it carry."""
    for pattern in _SECRETS:
        text = pattern.sub(r"\1…", text)
    return text


def _hide_secrets(logger: Any, method: str, line: str) -> str:
    """Change the rendered line: Django passes the request itself, which only a renderer prints."""
    return hide_secrets(line)


def shared_processors() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.stdlib.ExtraAdder(),
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


def _rendering(style: str) -> list[Any]:
    """Format tracebacks without local variables, because they may contain users' data."""
    drop_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if style == "json":
        return [
            drop_meta,
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            structlog.processors.JSONRenderer(sort_keys=True, default=str),
            _hide_secrets,
        ]
    console = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    return [drop_meta, console, _hide_secrets]
