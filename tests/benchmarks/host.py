"""What the host of a virtual machine takes from it while something is measured.

A CPU that the host gives to another machine is "stolen" in Linux's words (``man 5 proc_stat``):
nothing runs on it here, and the slowest of many calls tell of that.
"""

import time
from pathlib import Path

_STAT = Path("/proc/stat")
_STEAL = 7
_GUEST = 8  # from here on what is counted among the earlier columns already


def ticks() -> tuple[int, int]:
    """Ticks of all CPUs since the start: withheld by the host, and altogether."""
    if not _STAT.exists():  # not Linux
        return 0, 0
    columns = [int(each) for each in _STAT.read_text().splitlines()[0].split()[1:]]
    return columns[_STEAL], sum(columns[:_GUEST])


def withheld(since: tuple[int, int]) -> float:
    """The share of CPU time the host withheld since ``since`` (see ``ticks``), 0 to 1."""
    (stolen, total), (stolen_before, total_before) = ticks(), since
    return (stolen - stolen_before) / max(1, total - total_before)


def pace() -> float:
    """Millions of rounds a second of a plain loop, the best of five: how fast Python is here now.

    Milliseconds of two runs compare as their paces do.
    """
    return max(_rounds_per_second() for _ in range(5)) / 1e6


def _rounds_per_second(rounds: int = 300_000) -> float:
    begun, total = time.perf_counter(), 0
    for each in range(rounds):
        total += each * each
    return rounds / (time.perf_counter() - begun)
