"""System check of the runner's package."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error

from . import conf


def check_package(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Require the package where a scheduler is configured; without it every remote task fails."""
    if not conf.scheduler() or find_spec("distributed") is not None:
        return []
    return [
        Error(
            "HOLDPOINT_DASK_SCHEDULER is set, and the package distributed is not installed.",
            hint="Install the extra `dask`.",
            id="holdpoint.E009",
        )
    ]
