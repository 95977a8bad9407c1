"""`python -m tests.benchmarks [--only NAME ...] [--quick]`."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext

from tests.benchmarks import host, peer
from tests.benchmarks.awake import awake
from tests.benchmarks.figures import Figure, save, table
from tests.benchmarks.picture import draw
from tests.benchmarks.surroundings import ROOT, Bench, bench

#: Name on the command line → what measures it, as module:function(bench) -> list[Figure].
PARTS = {
    "layers": "layers:measure",
    "resume": "resume:measure",
    "ahead": "ahead:measure",
    "throughput": "throughput:measure",
    "starts": "starts:measure",
    "scaling": "scaling:measure",
    "growth": "growth:measure",
    "answers": "answers:measure",
    "listing": "listing:measure",
    "pages": "pages:measure",
    "paint": "paint:measure",
    "live": "live:measure",
    "next": "next_review:measure",
    "approvals": "approvals:measure",
    "news": "news:measure",
    "footprint": "footprint:measure",
    "sandbox": "others:sandbox",
    "graph": "others:graph",  # last: it empties the catalogue
}
#: Parts that tell of their slowest: their CPUs are kept awake (see tests.benchmarks.awake).
SLOWEST = {"pages", "live", "next", "approvals", "news", "graph"}
OUT = ROOT / "var" / "bench"


def main() -> int:
    """Measure, print, save; 1 when a target was missed."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, _leave)
    begun = time.monotonic()
    with bench(quick=arguments.quick) as surroundings:
        names = [name for name in PARTS if name in arguments.only]  # in this order: see `graph`
        figures = [each for name in names for each in _measured(name, surroundings)]
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    pace = f"a plain loop of Python: {host.pace():.1f} million rounds a second"
    print(f"\n{table(figures)}\n\n{_notes()}{time.monotonic() - begun:.0f} s, load {load}; {pace}")
    save(figures, OUT / "latest.json")
    draw(figures, OUT / "latest.svg")
    return 1 if any(figure.ok is False for figure in figures) else 0


def _leave(*_: object) -> None:
    """End, and leave no server and no folder behind: a second signal does not cut that short."""
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    sys.exit(143)


def _notes() -> str:
    """What to know about the baselines."""
    if not peer.installed():
        return "LangGraph is not installed: its figures are left out.\n"
    return (
        f"LangGraph {peer.version()} with PostgresSaver.  sync and async keep every layer; exit\n"
        "writes at the end of a run alone, keeps no layer, and is held against no target.\n"
    )


def _measured(name: str, surroundings: Bench) -> Iterator[Figure]:
    print(f"{name} ...", end=" ", flush=True)
    begun, before = time.monotonic(), host.ticks()
    module, _, function = PARTS[name].partition(":")
    measure = getattr(importlib.import_module(f"tests.benchmarks.{module}"), function)
    with awake() if name in SLOWEST else nullcontext():
        yield from measure(surroundings)
    withheld = host.withheld(before)
    by_host = f", {withheld:.0%} of the CPUs withheld by the host" if withheld >= 0.01 else ""
    print(f"{time.monotonic() - begun:.0f} s{by_host}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="NAME",
                        help=f"measure these alone: {', '.join(PARTS)}")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, smaller counts")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
