"""Profiles of the state machine.

`dev` and `ci` (the default where CI is set) play the same histories every time.  `nightly`, the
profile of `make test-long`, plays other ones on every run.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

DEFAULT = "ci" if os.environ.get("CI") else "dev"
#: Examples and steps per example.
PROFILES = {"dev": (25, 50), "ci": (200, 50), "nightly": (20_000, 100)}

for _name, (_examples, _steps) in PROFILES.items():
    settings.register_profile(
        _name,
        max_examples=_examples,
        stateful_step_count=_steps,
        deadline=None,
        derandomize=_name != "nightly",
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture
def profile(request: pytest.FixtureRequest) -> settings:
    """The profile that was asked for, or the short one."""
    name = request.config.getoption("--hypothesis-profile") or DEFAULT
    return settings.get_profile(name if name in PROFILES else DEFAULT)
