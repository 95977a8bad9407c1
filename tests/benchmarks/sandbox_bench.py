"""What it costs to start a program in the sandbox, against bare `deno run` of an empty file.

`measure()` returns lower quartiles in milliseconds; `main()` prints them and says whether the
bounds hold: a Python task within 5 ms, a TypeScript task within 1.5 times the bare start.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from workflows.sandbox import CodeRequest, SandboxConfig, deno_setup, run_code

PYTHON_BOUND_MS = 5.0
DENO_BOUND_RATIO = 1.5

#: The programs are our own, so the benchmark may run as root.
CONFIG = SandboxConfig(allow_root=True)


@dataclass(frozen=True)
class StartCosts:
    """Lower quartiles in milliseconds: the cost itself, with little of a busy machine in it."""

    python_task: float
    typescript_task: float
    bare_deno: float

    @property
    def ratio(self) -> float:
        """A TypeScript task in bare starts."""
        return self.typescript_task / self.bare_deno

    @property
    def holds(self) -> bool:
        """Whether both bounds are kept."""
        return self.python_task <= PYTHON_BOUND_MS and self.ratio <= DENO_BOUND_RATIO


def python_task() -> None:
    """One Python task that does nothing worth measuring."""
    run_code(CodeRequest("python", "1 + 1", config=CONFIG))


def typescript_task() -> None:
    """One TypeScript task that does nothing worth measuring."""
    run_code(CodeRequest("typescript", "export default 1 + 1", config=CONFIG))


def bare_deno(empty: Path) -> None:
    """`deno run` of an empty file, as anyone would call it."""
    subprocess.run([deno_setup.binary(), "run", str(empty)], capture_output=True, check=True)


def measure(rounds: int = 30) -> StartCosts:
    """Time the three side by side, so that a busy machine is busy for all of them."""
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.js"
        empty.touch()
        jobs: list[Callable[[], None]] = [python_task, typescript_task, lambda: bare_deno(empty)]
        times: list[list[float]] = [[] for _ in jobs]
        for round_number in range(rounds + 1):
            for job, found in zip(jobs, times, strict=True):
                started = time.perf_counter()
                job()
                # The first round starts the worker pool and warms the file cache.
                if round_number:
                    found.append((time.perf_counter() - started) * 1000)
    return StartCosts(*(statistics.quantiles(found)[0] for found in times))


def main() -> int:
    """Print the costs; 0 when the bounds hold."""
    costs = measure()
    print(f"python task      {costs.python_task:7.2f} ms   (bound {PYTHON_BOUND_MS:g} ms)")
    print(f"typescript task  {costs.typescript_task:7.2f} ms")
    print(f"bare deno run    {costs.bare_deno:7.2f} ms")
    print(f"ratio            {costs.ratio:7.2f}      (bound {DENO_BOUND_RATIO:g})")
    return 0 if costs.holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
