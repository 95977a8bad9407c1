"""App config of the runner `dask`."""

from __future__ import annotations

from django.apps import AppConfig
from django.core.checks import register

from workflows.remote.port import RemoteRunner
from workflows.remote.registry import register_runner

from . import conf


class DaskConfig(AppConfig):
    """Offers the runner, where a scheduler is configured."""

    name = "workflows.contrib.dask"
    verbose_name = "Dask"

    def ready(self) -> None:
        from .checks import check_package

        register_runner("dask", _runner)
        register(check_package, "holdpoint")


def _runner() -> RemoteRunner | None:
    from .runner import DaskRunner

    return DaskRunner(conf.scheduler()) if conf.scheduler() else None
