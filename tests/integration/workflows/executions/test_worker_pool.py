"""The worker pool: its workers end with it, and are counted as they are."""

import os
import signal
import subprocess
from collections.abc import Iterator

import django_rq
import psutil
import pytest
from django.test import Client
from rq import Worker

from config.devserver.embedded.processes import is_alive
from tests.integration.workflows.conftest import Engine
from tests.support.processes import end, start, wait_for, worker_pids

BEARER = {"Authorization": "Bearer s3cret"}


@pytest.fixture
def pool(engine: Engine, settings) -> Iterator[subprocess.Popen[bytes]]:
    """A pool of two workers that have registered."""
    settings.HOLDPOINT = {**settings.HOLDPOINT, "metrics_token": "s3cret"}
    django_rq.get_connection("default").flushdb()
    process = start("run_workers", "--workers", "2", HOLDPOINT_ROLE="worker")
    try:
        wait_for(lambda: len(registered()) == 2, what="two workers")
        yield process
    finally:
        if process.poll() is None:
            end(process)


def registered() -> set[int]:
    """Ids of the workers that RQ lists."""
    return {each.pid for each in Worker.all(connection=django_rq.get_connection("default"))}


def counted() -> float:
    """What `/metrics` says about workers."""
    lines = Client().get("/metrics", headers=BEARER).content.decode().splitlines()
    [line] = [each for each in lines if each.startswith("holdpoint_workers ")]
    return float(line.split()[1])


def test_workers_end_with_a_killed_pool(pool: subprocess.Popen[bytes]) -> None:
    below = psutil.Process(pool.pid).children(recursive=True)
    assert len(below) >= 2
    pool.kill()
    pool.wait()
    wait_for(lambda: not any(is_alive(each) for each in below), seconds=30, what="nobody left")


def test_a_worker_runs_no_rq_scheduler(pool: subprocess.Popen[bytes]) -> None:
    for pid in worker_pids(pool):
        forked = [
            each
            for each in psutil.Process(pid).children()
            if "run_workers" in " ".join(each.cmdline())
        ]
        assert forked == []


def test_a_killed_worker_is_replaced_and_no_longer_counted(pool: subprocess.Popen[bytes]) -> None:
    wait_for(lambda: counted() == 2, seconds=60, what="two are counted")
    before = set(worker_pids(pool))
    assert registered() == before
    victim = min(before)
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: len(registered() - before) == 1, what="another one")
    # RQ lists the killed one until its heartbeat expires.
    assert set(worker_pids(pool)) == registered() - {victim}
    assert counted() == 2


def test_workers_of_a_killed_pool_are_not_counted(pool: subprocess.Popen[bytes]) -> None:
    wait_for(lambda: counted() == 2, seconds=60, what="two are counted")
    pool.kill()
    pool.wait()
    wait_for(lambda: counted() == 0, seconds=60, what="none is counted")
    second = start("run_workers", "--workers", "1", HOLDPOINT_ROLE="worker")
    try:
        wait_for(lambda: counted() == 1, seconds=60, what="one is counted")
    finally:
        end(second)
    assert counted() == 0
