"""Typed settings of the app, read at access time so that tests can override one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings


def _value(key: str) -> Any:
    return settings.HOLDPOINT[key]


def lease_seconds() -> float:
    """How long a worker's claim lasts without a heartbeat."""
    return float(_value("lease_seconds"))


def slice_seconds() -> float:
    """How long a worker stays with one execution before others get a turn."""
    return float(_value("slice_seconds"))


def commit_window_seconds() -> float:
    """Results that finish within this time are committed together."""
    return float(_value("commit_window_ms")) / 1000


def checkpoints_kept() -> int:
    return int(_value("checkpoints_kept"))


def max_replans() -> int:
    return int(_value("max_replans"))


def abandoned_ttl_seconds() -> float:
    """How long an execution waits for an external agent before it is aborted."""
    return float(_value("abandoned_ttl_seconds"))


def sweep_seconds() -> float:
    return float(_value("sweep_seconds"))


def task_timeout_seconds() -> float:
    """Time limit of a task that names none."""
    return float(_value("task_timeout_seconds"))


def grant_ceilings() -> dict[str, str]:
    """Group → the named set up to which its members grant; "*" stands for every other group."""
    return dict(_value("grant_ceilings"))


def sandbox_memory_mb() -> int:
    """Memory of one run of code, besides what its runtime needs for itself."""
    return int(_value("sandbox_memory_mb"))


def sandbox_require_landlock() -> bool:
    """Whether code is refused on a kernel without Landlock, the sandbox's second wall."""
    return bool(_value("sandbox_require_landlock"))


def sandbox_root() -> Path:
    """Where runs of code have their folders."""
    return Path(_value("sandbox_root"))


def workers() -> int:
    return int(_value("workers"))


def site_url() -> str:
    return str(_value("site_url"))
