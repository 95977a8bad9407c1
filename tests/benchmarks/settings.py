"""Settings of every process of a benchmark: those of the tests, with the kit's tools."""

from config.settings.test import *  # noqa: F403
from config.settings.test import HOLDPOINT

HOLDPOINT = {**HOLDPOINT, "tool_modules": ("tests.benchmarks.kit",)}
