"""Processes are killed at random, and servers, disks, clocks and the network fail, under load.

`make test` does it for about a minute on the loopback, without root. `make test-cluster` does it in
network namespaces for half an hour. `HOLDPOINT_CHAOS_SECONDS` sets another duration, and
`HOLDPOINT_CHAOS_PACE` the mean of the seconds between two kills. A worker is forked in milliseconds
where other processes start in seconds: with many workers (`HOLDPOINT_CHAOS_WORKERS` on each host)
runs still end at a fast pace. The seed is printed; `HOLDPOINT_CHAOS_SEED` sets it.
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
PACE = float(os.environ.get("HOLDPOINT_CHAOS_PACE", "2"))
WORKERS = os.environ.get("HOLDPOINT_CHAOS_WORKERS", "3")
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
        torment(cluster, load, seconds=SECONDS, between=12)


def test_faults_on_one_machine(build_single: BuildSingle) -> None:
    single, receiver = build_single(**SETTINGS)
    with single.logs_on_failure(), under_load(single, receiver) as load:
        torment(single, load, seconds=0, between=4)


def torment(installation: Installation, load: Load, *, seconds: float, between: float) -> None:
    """Let every fault happen once, about `between` seconds apart, and again for so long.

    Processes are killed before each fault and while it lasts.
    """
    seed = int(os.environ.get("HOLDPOINT_CHAOS_SEED", time.time()))
    dice, done, begun = random.Random(seed), Counter[str](), time.monotonic()
    faults = installation.faults(dice)
    while not done or time.monotonic() - begun < seconds:
        for name in dice.sample([*faults], len(faults)):
            done["kills"] += kill(installation, dice, dice.uniform(0, 2 * between))
            if load.error is not None:
                return
            happen, mend = faults[name]
            happen()
            done[name] += 1
            done["kills"] += kill(installation, dice, LASTING.get(name, 0.0))
            mend()
            installation.start_what_ended()
    passed, ended = time.monotonic() - begun, len(load.completed)
    print(f"\nseed {seed}, {passed:.0f} s: {dict(done)}, {ended} runs ended")  # noqa: T201


def kill(installation: Installation, dice: random.Random, seconds: float) -> int:
    """Kill processes for so long; returns how many were killed."""
    killed, end = 0, time.monotonic() + seconds
    while (pause := dice.uniform(PACE / 2, 3 * PACE / 2)) < end - time.monotonic():
        time.sleep(pause)
        killed += installation.kill_one(dice)
        installation.start_what_ended()
    time.sleep(max(0.0, end - time.monotonic()))
    return killed
