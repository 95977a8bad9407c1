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


def backstop_seconds() -> float:
    """How often a socket looks into the journal although no news came."""
    return float(_value("socket_backstop_seconds", 20))


def page_size() -> int:
    """Rows of a page: queue, runs, history, tools."""
    return int(_value("page_size", 50))


def heads_file() -> Path | None:
    """Where heads of the chain of records are noted; None for nowhere."""
    path = _value("audit_heads_file", None)
    return Path(path) if path else None


def heads_seconds() -> float:
    """The least time between two of them."""
    return float(_value("audit_heads_seconds", 3600))
