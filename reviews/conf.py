"""Typed settings of the app, read at access time so that tests can override one."""

from __future__ import annotations

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
