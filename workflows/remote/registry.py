"""The registry of remote runners, which apps fill in `AppConfig.ready()`."""

from __future__ import annotations

from collections.abc import Callable

from .port import RemoteRunner

RunnerFactory = Callable[[], RemoteRunner | None]

_factories: dict[str, RunnerFactory] = {}


def register_runner(name: str, factory: RunnerFactory) -> None:
    """Offer a runner for tasks with `"runner": name`.

    The factory is called for each use, and returns None while the runner is not configured.
    """
    _factories[name] = factory


def configured_runners() -> dict[str, RemoteRunner]:
    """Return the runners of this installation by name."""
    runners = {name: factory() for name, factory in _factories.items()}
    return {name: runner for name, runner in runners.items() if runner is not None}
