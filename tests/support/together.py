"""Which tests stay in one xdist worker: those of a file, and folders that share processes.

Dealt out one by one, as xdist would, they make what they share in each worker: a migrated database,
a web process, a filled table. Marks of xdist do not help: with pytest 9.2 it no longer sees them.
"""

from typing import Any

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

#: Folders with fixtures for all of their files.
SHARED = ("tests/integration/mcp_gateway/", "tests/integration/oidc/", "tests/scale/")


class ByPlace(LoadScopeScheduling):
    """Deals out files and whole folders."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((folder for folder in SHARED if file.startswith(folder)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByPlace:
    """Asked by xdist in the process that starts the workers."""
    return ByPlace(config, log)
