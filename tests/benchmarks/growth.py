"""Whether a layer's cost grows with the layers before it, and how wide a layer runs at once."""

from __future__ import annotations

import time

from tests.benchmarks import kit
from tests.benchmarks.figures import Figure, middle
from tests.benchmarks.surroundings import Bench, start_quietly, wait_until_final
from workflows.executions import dispatch
from workflows.models import ExecutionEvent

EARLY, LATE, AROUND, WIDTH = 20, 2000, 15, 5
NAPS, SECONDS = 10, 0.2


def measure(bench: Bench) -> list[Figure]:
    bench.need_worker()
    runs = bench.rounds(5, 1)
    pairs = [deep() for _ in range(runs)]
    early, late = (middle([pair[at] for pair in pairs]) for at in (0, 1))
    wide = [seconds_of_naps(bench) for _ in range(bench.rounds(7, 3) + 1)][1:]
    in_sequence = NAPS * SECONDS * 1000
    speed_up = in_sequence / (middle(wide) * 1000)
    return [
        Figure(f"layer {LATE} of a run", late, "ms", runs * 2 * AROUND, early, f"layer {EARLY}",
               1.2),
        Figure("speed-up of 10 x 200 ms in a layer", speed_up, "times", len(wide), target=9.0,
               bound="at least"),
    ]  # fmt: skip


def deep() -> tuple[float, float]:
    """Median milliseconds per layer around the early and the late one of a long run."""
    execution_id = start_quietly(kit.grid(LATE + AROUND + 2, WIDTH))
    dispatch.enqueue(dispatch.ADVANCE, execution_id)
    wait_until_final(execution_id)
    starts = dict(
        ExecutionEvent.objects.filter(execution_id=execution_id, kind="layer_started").values_list(
            "payload__layer", "created_at"
        )
    )

    def around(layer: int) -> float:
        numbers = range(layer - AROUND, layer + AROUND)
        return middle(
            [(starts[each + 1] - starts[each]).total_seconds() * 1000 for each in numbers]
        )

    return around(EARLY), around(LATE)


def seconds_of_naps(bench: Bench) -> float:
    """From sending for a worker to the end of a run of ten naps side by side."""
    tasks = [kit.task(f"nap{at}", "nap", seconds=SECONDS) for at in range(NAPS)]
    execution_id = start_quietly({"tasks": tasks})
    bench.forget_reports()
    sent = time.monotonic()
    dispatch.enqueue(kit.ADVANCE, execution_id)
    return float(bench.told_by(str(execution_id))["at"]) - sent
