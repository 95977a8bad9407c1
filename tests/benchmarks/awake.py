"""Keeps every CPU awake while a benchmark waits.

A virtual machine's idle CPU is taken away by its host and comes back late, by tens of
milliseconds at times: the slowest of twenty waits then tells of the host and of nothing here. One
process per CPU that runs only when nothing else wants to (SCHED_IDLE) holds it, and costs the
measured processes no more than a switch. `python -m tests.benchmarks.awake PID CPU` is that
process; it ends with the process PID.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def awake() -> Iterator[None]:
    """Hold all CPUs this process may use; where the system cannot (not Linux), do nothing."""
    if not hasattr(os, "SCHED_IDLE"):
        yield
        return
    arguments = [sys.executable, "-m", "tests.benchmarks.awake", str(os.getpid())]
    holders = [subprocess.Popen([*arguments, str(cpu)]) for cpu in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()


def _hold(parent: int, cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while os.getppid() == parent:
        for _ in range(1_000_000):
            os.sched_yield()


if __name__ == "__main__":
    _hold(int(sys.argv[1]), int(sys.argv[2]))
