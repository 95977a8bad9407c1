"""Typed settings of the app, read at access time so that tests can override one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings


def _value(key: str, default: Any) -> Any:
    return settings.HOLDPOINT.get(key, default)


def undo_seconds() -> float:
    """Undo period of decisions on pages, unless the run's policy sets one."""
    return float(_value("undo_seconds", 5))


def page_size() -> int:
    """Rows of a page: queue, runs, history, tools."""
    return int(_value("page_size", 50))


def answer_link_hours() -> int:
    """Hours for which the link of an e-mail decides without a sign-in; 0 turns the links off."""
    return int(_value("answer_link_hours", 0))


def slack_api_url() -> str:
    """Base address of Slack's Web API."""
    return str(_value("slack_api_url", "https://slack.com/api/"))


def notice_gather_seconds() -> float:
    """Notices within this time are sent as one message."""
    return float(_value("notice_gather_seconds", 10))


def notice_pause_seconds() -> float:
    """Minimum time between two messages to one user or chat."""
    return float(_value("notice_pause_seconds", 60))


def notice_backoff_seconds() -> float:
    """Delay after the first failure; doubled with each further one, up to an hour."""
    return float(_value("notice_backoff_seconds", 5))


def notice_max_attempts() -> int:
    """Number of attempts after which a message fails."""
    return int(_value("notice_max_attempts", 12))


def retention_hours() -> tuple[int, int] | None:
    """Hours (UTC) from and until which old runs are erased; None for the whole day."""
    hours: tuple[int, int] | None = _value("retention_hours", None)
    return hours


def heads_file() -> Path | None:
    """File to which signed heads of the audit log are appended, or None."""
    path = _value("audit_heads_file", None)
    return Path(path) if path else None


def heads_to_log() -> bool:
    """Whether heads are also written to the log."""
    return bool(_value("audit_heads_log", default=False))


def audit_key() -> str:
    """Secret from which the key of the audit log is derived; "" disables signing."""
    return str(_value("audit_key", ""))


def audit_retired_keys() -> tuple[str, ...]:
    """Earlier public keys of the audit log."""
    return tuple(_value("audit_retired_keys", ()))
