"""The core runs and passes its tests without any contrib app; `make test-core` runs them all."""

import os
import subprocess
import sys

from tests.support.processes import ROOT

TESTS = "tests/integration/workflows/approvals/test_asking.py"


def test_the_core_passes_its_tests_without_contrib_apps() -> None:
    # The run inside has servers of its own, and stops them at its end.
    ours = ("PYTEST", "HOLDPOINT_", "DATABASE_URL", "REDIS_URL")
    env = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
    env["HOLDPOINT_CONTRIB"] = "none"
    for command in (
        ["manage.py", "makemigrations", "--check", "--dry-run"],
        ["-m", "pytest", "-q", "-n", "0", TESTS],
    ):
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
