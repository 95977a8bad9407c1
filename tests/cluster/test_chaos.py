"""Processes are killed at random, and servers, disks, clocks and the network fail, under load.

`make test` does it for two minutes on the loopback, without root. `make test-cluster` does it in
network namespaces for half an hour, with these variables of the environment:

- `HOLDPOINT_CHAOS_SECONDS`: the duration.
- `HOLDPOINT_CHAOS_PACE`: the mean of the seconds between two kills.
- `HOLDPOINT_CHAOS_WORKERS`: workers on each host. A worker is forked in milliseconds, and other
  processes start in seconds: with many workers runs end at a fast pace of kills too.

Both print their seed, which `HOLDPOINT_CHAOS_SEED` sets.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter

import pytest

from tests.cluster.conftest import Build, BuildSingle
from tests.cluster.installation import Installation
from tests.cluster.load import Load
from tests.cluster.oracle import under_load
from tests.support.repetitions import LONG

SECONDS = float(os.environ.get("HOLDPOINT_CHAOS_SECONDS", "1800"))
PACE = float(os.environ.get("HOLDPOINT_CHAOS_PACE", "1"))
WORKERS = os.environ.get("HOLDPOINT_CHAOS_WORKERS", "24")
#: By default a run fails after three lost workers in a row, which happens here.
SETTINGS = {
    "HOLDPOINT_LOST_CLAIMS_LIMIT": "0",
    "HOLDPOINT_LEASE_SECONDS": "5",
    "HOLDPOINT_WEBHOOK_LEASE_SECONDS": "10",
    "HOLDPOINT_WEBHOOK_TIMEOUT_SECONDS": "5",
}
#: Seconds that a fault lasts.
LASTING = {"a full disk": 4.0, "a slow network": 6.0, "a host cut off": 6.0}


@pytest.mark.skipif(not LONG, reason="minutes: make test-cluster runs it")
def test_faults_under_load(build: Build) -> None:
    cluster, receiver = build(**SETTINGS, HOLDPOINT_WORKERS=WORKERS)
    with cluster.logs_on_failure(), under_load(cluster, receiver) as load:
        torment(cluster, load, seconds=SECONDS, between=12, pace=PACE)


def test_faults_on_one_machine(build_single: BuildSingle) -> None:
    single, receiver = build_single(**SETTINGS)
    with single.logs_on_failure(), under_load(single, receiver) as load:
        torment(single, load, seconds=120, between=4, pace=2)


def torment(
    installation: Installation, load: Load, *, seconds: float, between: float, pace: float
) -> None:
    """Let faults happen about `between` seconds apart: each once at least, and for `seconds`.

    Processes are killed before each fault and while it lasts, about `pace` seconds apart.
    """
    seed = int(os.environ.get("HOLDPOINT_CHAOS_SEED", time.time()))
    dice, done, begun = random.Random(seed), Counter[str](), time.monotonic()
    faults = installation.faults(dice)

    def kill(duration: float) -> None:
        end = time.monotonic() + duration
        while (pause := dice.uniform(pace / 2, 3 * pace / 2)) < end - time.monotonic():
            time.sleep(pause)
            done["kills"] += installation.kill_one(dice)
            installation.start_what_ended()
        time.sleep(max(0.0, end - time.monotonic()))

    try:
        while True:
            for name in dice.sample([*faults], len(faults)):
                if faults.keys() <= done.keys() and time.monotonic() - begun >= seconds:
                    return
                kill(dice.uniform(0, 2 * between))
                if load.error is not None:
                    return
                happen, mend = faults[name]
                happen()
                done[name] += 1
                kill(LASTING.get(name, 0.0))
                mend()
                installation.start_what_ended()
    finally:
        passed, ended = time.monotonic() - begun, len(load.completed)
        print(f"\nseed {seed}, {passed:.0f} s: {dict(done)}, {ended} runs ended")  # noqa: T201
