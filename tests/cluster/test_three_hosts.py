"""Each host and server is lost, one after the other, while runs are under way.

`make test-cluster` lays the hosts out in network namespaces and prints the figures.
"""

from __future__ import annotations

import pytest

from tests.cluster.conftest import Build
from tests.cluster.load import Load
from tests.cluster.oracle import under_load
from tests.support.processes import wait_for
from tests.support.repetitions import LONG

pytestmark = pytest.mark.skipif(not LONG, reason="minutes: make test-cluster runs it")

#: Runs that complete between two losses.
BETWEEN = 10


def test_every_loss_under_load(build: Build) -> None:
    cluster, receiver = build()
    with cluster.logs_on_failure(), under_load(cluster, receiver) as load:
        for lose in (
            cluster.fail_over_postgres,
            cluster.fail_over_redis,
            cluster.app2.unplug,
            cluster.app2.plug_in,
            cluster.app2.kill,
            lambda: cluster.start(cluster.app2),
        ):
            complete_more(load)
            lose()
        complete_more(load)


def complete_more(load: Load) -> None:
    """Wait until the runs under way have completed, and a number of further ones."""
    under_way = set(load.runs[1:]) - load.completed
    wanted = len(load.completed) + BETWEEN

    def completed() -> bool:
        assert load.error is None, load.error
        return len(load.completed) >= wanted and under_way <= load.completed

    wait_for(completed, seconds=300, what="runs complete")
