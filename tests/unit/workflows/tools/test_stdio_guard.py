"""A server does not outlive the guard that starts it."""

import signal
import subprocess
import sys

import pytest

from tests.support.processes import ROOT

GUARD = ROOT / "workflows" / "tools" / "mcp_client" / "stdio_guard.py"
BEFORE_EXEC = "import os, runpy, sys; runpy.run_path(sys.argv[1])['_end_with']({guard})"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel of Linux ends it")
@pytest.mark.parametrize(("guard", "status"), [("os.getppid()", 0), ("0", -signal.SIGKILL)])
def test_a_server_ends_whose_guard_was_killed_while_it_started(guard: str, status: int) -> None:
    """Between fork and the call of prctl the kernel does not know that it should end."""
    command = [sys.executable, "-c", BEFORE_EXEC.format(guard=guard), str(GUARD)]
    assert subprocess.run(command, timeout=60, check=False).returncode == status
