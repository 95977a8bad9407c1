"""A place to run programs in, a secret they must not see, and a check that nothing is left."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.http_server import Server, running
from workflows.sandbox import CodeRequest, CodeResult, SandboxConfig, run_code

SECRET = "canary-7f3d9a"


class Bench:
    """Runs programs in one temporary root and looks at what they leave behind."""

    def __init__(self, root: Path) -> None:
        self.temp = root / "temp"
        self.scratch = root / "scratch"
        self.secret = root / "private" / "secret.txt"
        for folder in (self.temp, self.scratch, self.secret.parent):
            folder.mkdir()
        self.secret.write_text(SECRET)
        self._threads = threading.active_count()

    def request(self, language: str, code: str, **options: Any) -> CodeRequest:
        # Tests may run as root in a container.
        options["config"] = {"allow_root": True, **options.get("config", {})}
        config = SandboxConfig(temp_root=self.temp, **options.pop("config", {}))
        options.setdefault("timeout_seconds", 10)
        return CodeRequest(language, code, config=config, **options)  # type: ignore[arg-type]

    def run(self, language: str, code: str, **options: Any) -> CodeResult:
        should_stop = options.pop("should_stop", lambda: False)
        return run_code(self.request(language, code, **options), should_stop)

    def leftovers(self) -> list[str]:
        """Files and Deno processes that are still there."""
        files = [str(path) for path in self.temp.iterdir()]
        return files + [str(deno) for deno in deno_processes()]


def deno_processes() -> Iterator[psutil.Process]:
    """Those below this process; whatever ends meanwhile is none."""
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "deno" in child.name():
                yield child


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("CANARY", SECRET)
    bench = Bench(tmp_path)
    yield bench
    assert bench.leftovers() == []


@pytest.fixture(scope="session")
def web_server() -> Iterator[Server]:
    with running() as server:
        yield server
