"""Processes are killed at random, and servers, disks, clocks and the network fail, under load.

`make test` does it for about a minute on the loopback, without root. `make test-cluster` does it in
network namespaces for half an hour; `HOLDPOINT_CHAOS_SECONDS` sets another duration. The seed is
printed, and `HOLDPOINT_CHAOS_SEED` sets it.
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
    cluster, receiver = build(**SETTINGS)
    with cluster.logs_on_failure(), under_load(cluster, receiver) as load:
        torment(cluster, load, seconds=SECONDS, kills=6)


def test_faults_on_one_machine(build_single: BuildSingle) -> None:
    single, receiver = build_single(**SETTINGS)
    with single.logs_on_failure(), under_load(single, receiver) as load:
        torment(single, load, seconds=0, kills=2)


def torment(installation: Installation, load: Load, *, seconds: float, kills: int) -> None:
    """Let every fault happen once, each after about `kills` kills, and again for so long."""
    seed = int(os.environ.get("HOLDPOINT_CHAOS_SEED", time.time()))
    dice, done, begun = random.Random(seed), Counter[str](), time.monotonic()
    faults = installation.faults(dice)
    while not done or time.monotonic() - begun < seconds:
        for name in dice.sample([*faults], len(faults)):
            done["kills"] += kill(installation, dice, dice.randint(1, 2 * kills - 1))
            if load.error is not None:
                return
            happen, mend = faults[name]
            happen()
            done[name] += 1
            time.sleep(LASTING.get(name, 0.0))
            mend()
            installation.start_what_ended()
    print(f"\nseed {seed}, {time.monotonic() - begun:.0f} s: {dict(done)}")  # noqa: T201


def kill(installation: Installation, dice: random.Random, times: int) -> int:
    for _ in range(times):
        time.sleep(dice.uniform(1, 3))
        installation.kill_one(dice)
        installation.start_what_ended()
    return times
