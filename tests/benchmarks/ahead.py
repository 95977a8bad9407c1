"""What work ahead saves when a reviewer approves unchanged, and whether it is in the way.

Both with one worker, which is the worst place for a resume: the one process is at work ahead.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

from tests.benchmarks import kit
from tests.benchmarks.figures import Figure, middle
from tests.benchmarks.resume import submitted
from tests.benchmarks.surroundings import Bench, start_quietly, wait_until_final
from workflows.executions import dispatch
from workflows.models import Execution, ExecutionEvent, Hold, Speculation

STEPS, SECONDS = 5, 0.1
#: Resume to end with work ahead, of the same without: five steps of 0.1 s are there at once.
SHARE = 0.4
#: A worker at work ahead looks every 0.1 s whether somebody waits for it.
GIVES_WAY_MS = 250.0
AHEAD = {"speculation": {"enabled": True}}


def measure(bench: Bench) -> list[Figure]:
    bench.need_worker()
    n = bench.rounds(20, 4)
    _resumed_to_end(AHEAD)  # warm
    with_it, without = [], []
    for _ in range(n):
        with_it.append(_resumed_to_end(AHEAD))
        without.append(_resumed_to_end({}))
    in_the_way = [_first_line_while_ahead(bench) for _ in range(bench.rounds(10, 3))]
    name = f"resume -> end, {STEPS} reads of {SECONDS:g} s behind the hold, computed ahead"
    return [
        Figure(name, middle(with_it), "ms", n, middle(without), "without work ahead", SHARE),
        Figure(
            "resume -> first line, the only worker at work ahead",
            middle(in_the_way), "ms", len(in_the_way), target=GIVES_WAY_MS,
        ),
    ]  # fmt: skip


def _held() -> dict[str, Any]:
    return {
        **kit.task("held", "noop", value=1),
        "human_review": {"trigger_phase": "AFTER_EXECUTION"},
    }


def _resumed_to_end(policy: dict[str, Any]) -> float:
    """Milliseconds from the recorded decision to the recorded end, by the database's clock."""
    names = ["held", *(f"step{number}" for number in range(STEPS))]
    steps = [kit.task(name, "nap", [before], seconds=SECONDS) for before, name in pairwise(names)]
    execution_id = start_quietly({"tasks": [_held(), *steps]}, policy=policy)
    hold = _paused(execution_id)
    if policy:
        _until(lambda: _ahead(execution_id, "READY") == STEPS)
    submitted(execution_id, hold)
    wait_until_final(execution_id)
    decided = ExecutionEvent.objects.get(execution_id=execution_id, kind="hold_decided").created_at
    ended = Execution.objects.get(pk=execution_id).finished_at
    assert ended is not None
    return (ended - decided).total_seconds() * 1000


def _first_line_while_ahead(bench: Bench) -> float:
    """Milliseconds from the resume to the first line of a task that may not run ahead."""
    marked = {**kit.task("marked", "mark", ["held"], name="m"), "permission_set": "filesystem"}
    slow = kit.task("slow", "nap", ["held"], seconds=1.0)
    execution_id = start_quietly({"tasks": [_held(), slow, marked]}, policy=AHEAD)
    hold = _paused(execution_id)
    _until(lambda: _ahead(execution_id, "RUNNING") == 1)
    bench.forget_reports()
    issued = time.monotonic()
    submitted(execution_id, hold)
    first_line = float(bench.told_by("m")["at"])
    wait_until_final(execution_id)
    return (first_line - issued) * 1000


def _paused(execution_id: int) -> Hold:
    dispatch.enqueue(dispatch.ADVANCE, execution_id)
    _until(lambda: Hold.objects.filter(execution_id=execution_id).exists())
    return Hold.objects.get(execution_id=execution_id)


def _ahead(execution_id: int, state: str) -> int:
    return Speculation.objects.filter(execution_id=execution_id, state=state).count()


def _until(is_so: Any) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        if time.monotonic() > deadline:
            raise RuntimeError("work ahead did not come so far")
        time.sleep(0.01)
