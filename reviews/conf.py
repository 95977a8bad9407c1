"""Typed settings of the app, read at access time so that tests can override one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings


def _value(key: str, default: Any) -> Any:
    return settings.HOLDPOINT.get(key, default)


def claim_seconds() -> float:
    """How long a claim lasts without a heartbeat."""
    return float(_value("claim_seconds", 300))


def undo_seconds() -> float:
    """For how long a decision on a page can be undone, where the run's policy does not say."""
    return float(_value("undo_seconds", 5))


def backstop_seconds() -> float:
    """How often a socket looks into the journal although no news came."""
    return float(_value("socket_backstop_seconds", 20))


def page_size() -> int:
    """Rows of a page: queue, runs, history, tools."""
    return int(_value("page_size", 50))


def notice_poll_seconds() -> float:
    """How often the journal and the outbox are looked at when nothing happens."""
    return float(_value("notice_poll_seconds", 0.5))


def notice_gather_seconds() -> float:
    """What comes within this time goes out as one message."""
    return float(_value("notice_gather_seconds", 10))


def notice_pause_seconds() -> float:
    """The least time between two messages to one person or chat."""
    return float(_value("notice_pause_seconds", 60))


def notice_lease_seconds() -> float:
    """How long one try to send may take before somebody else takes the message."""
    return float(_value("notice_lease_seconds", 120))


def notice_backoff_seconds() -> float:
    """The wait after the first failure; it doubles with each one, up to an hour."""
    return float(_value("notice_backoff_seconds", 5))


def notice_max_attempts() -> int:
    """Tries after which a message is given up."""
    return int(_value("notice_max_attempts", 12))


def notice_keep_days() -> int:
    """How long notices and messages are kept."""
    return int(_value("notice_keep_days", 90))


def heads_file() -> Path | None:
    """The file that signed heads of the audit log are added to; None for none."""
    path = _value("audit_heads_file", None)
    return Path(path) if path else None


def heads_seconds() -> float:
    """The time between two of them."""
    return float(_value("audit_heads_seconds", 55))


def heads_to_log() -> bool:
    """Whether heads are written to the log, too."""
    return bool(_value("audit_heads_log", default=False))


def heads_url() -> str:
    """The address that heads are posted to; "" for none."""
    return str(_value("audit_heads_url", ""))


def audit_key() -> str:
    """The secret that the key of the audit log is derived from; "" where nothing is signed."""
    return str(_value("audit_key", ""))


def audit_retired_keys() -> tuple[str, ...]:
    """Public keys that were in use before."""
    return tuple(_value("audit_retired_keys", ()))
