"""Settings of worker and sweeper processes that tests start: the toolkit's tools, short times."""

import os

from config.settings.test import *  # noqa: F403
from config.settings.test import HOLDPOINT
from workflows.tools.registry import BUILTIN_MODULES

HOLDPOINT = {
    **HOLDPOINT,
    "tool_modules": (*BUILTIN_MODULES, "tests.support.toolkit"),
    "lease_seconds": float(os.environ.get("HOLDPOINT_TEST_LEASE", "2")),
    "sweep_seconds": 0.5,
}
