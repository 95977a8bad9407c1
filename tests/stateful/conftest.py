"""Profiles of the state machine.

`dev` and `ci` (the default where CI is set) play the same histories every time.  `nightly`, the
profile of `make test-long`, plays other ones on every run.
"""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

DEFAULT = "ci" if os.environ.get("CI") else "dev"
#: Steps of a history, and how many histories are played on PostgreSQL and in memory.
PROFILES = {"dev": (50, 25, 100), "ci": (50, 25, 500), "nightly": (100, 1_000, 20_000)}


def _settings(name: str, histories: int, steps: int) -> settings:
    return settings(
        max_examples=histories,
        stateful_step_count=steps,
        deadline=None,
        derandomize=name != "nightly",
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


for _name, (_steps, _histories, _) in PROFILES.items():
    settings.register_profile(_name, _settings(_name, _histories, _steps))


@pytest.fixture(autouse=True)
def _workers_may_be_lost(settings: Any) -> None:
    """Histories lose more workers in a row than a run may; test_lost_workers covers that limit."""
    settings.HOLDPOINT = {**settings.HOLDPOINT, "lost_claims_limit": 0}


def _chosen(config: pytest.Config) -> str:
    name = config.getoption("--hypothesis-profile") or DEFAULT
    return name if name in PROFILES else DEFAULT


@pytest.fixture
def profile(request: pytest.FixtureRequest) -> settings:
    """The profile that was asked for, or the short one."""
    return settings.get_profile(_chosen(request.config))


@pytest.fixture
def memory_profile(request: pytest.FixtureRequest) -> settings:
    """The same profile with the number of histories to play in memory."""
    name = _chosen(request.config)
    steps, _, histories = PROFILES[name]
    return _settings(name, histories, steps)
