"""Processes are killed at random, PostgreSQL is restarted and Redis emptied, for half an hour.

`HOLDPOINT_CHAOS_SECONDS` sets another duration; the seed is printed.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter

import pytest

from tests.cluster.conftest import Build
from tests.cluster.oracle import under_load
from tests.support.repetitions import LONG

pytestmark = pytest.mark.skipif(not LONG, reason="minutes: make test-cluster runs it")

SECONDS = float(os.environ.get("HOLDPOINT_CHAOS_SECONDS", "1800"))
#: By default a run fails after three lost workers in a row, which happens here.
SETTINGS = {"HOLDPOINT_LOST_CLAIMS_LIMIT": "0", "HOLDPOINT_LEASE_SECONDS": "5"}


def test_random_kills_under_load(build: Build) -> None:
    seed = int(os.environ.get("HOLDPOINT_CHAOS_SEED", time.time()))
    dice, done = random.Random(seed), Counter[str]()
    cluster, receiver = build(**SETTINGS)
    actions = {
        "kill": lambda: cluster.kill_one(dice),
        "restart PostgreSQL": cluster.restart_postgres,
        "empty Redis": cluster.flush_redis,
    }
    with cluster.logs_on_failure(), under_load(cluster, receiver) as load:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and load.error is None:
            time.sleep(dice.uniform(1, 4))
            (name,) = dice.choices([*actions], weights=[18, 1, 1])
            actions[name]()
            done[name] += 1
            cluster.start_what_ended()
        cluster.start_what_ended()
    print(f"seed {seed}: {dict(done)}")  # noqa: T201
