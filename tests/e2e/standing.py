"""`manage.py` in a process that stays: each start of Django takes seconds.

Run as `python -m tests.e2e.standing`, it answers each line of its input, the arguments as JSON,
with a line `[exit code, output]`. The command line itself is tested by `Product.manage`.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout

from tests.architecture.files import ROOT


class Standing:
    """The process, started when it is first asked."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = dict(env)
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def __call__(self, *arguments: str) -> str:
        """What the command wrote; an AssertionError with all of it when the command failed."""
        with self._lock:
            process = self._process = self._process or self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(arguments) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        assert line, f"it ended with {process.wait()} at {arguments}"
        code, said = json.loads(line)
        assert code == 0, said
        return str(said)

    def close(self) -> None:
        """Ends it; the next call starts another one."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.communicate()

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.standing"],
            cwd=ROOT,
            env=self._env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


def run(arguments: list[str]) -> tuple[int, str]:
    """As `manage.py` would: the exit code, and what it wrote to both its outputs."""
    from django.core.management import execute_from_command_line

    said = io.StringIO()
    code = 0
    with redirect_stdout(said), redirect_stderr(said):
        try:
            execute_from_command_line(["manage.py", *arguments])
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        except Exception as error:
            code = 1
            said.write(f"{type(error).__name__}: {error}")
    return code, said.getvalue()


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.dev")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what else is written is no answer
    for line in sys.stdin:
        answers.write(json.dumps(run(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
