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
from workflows.metrics.process_liveness import heartbeat_age

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
    wait_for(lambda: victim not in registered() and len(registered()) == 2, what="another one")
    assert registered() == set(worker_pids(pool))
    assert counted() == 2


def test_a_pool_keeps_its_sweeper_alive_and_stops_it(engine: Engine) -> None:
    django_rq.get_connection("default").flushdb()
    pool = start("run_workers", "--workers", "1", "--sweeper-output", "1", HOLDPOINT_ROLE="worker")
    try:
        wait_for(lambda: heartbeat_age("sweeper") is not None, what="a round")
        assert psutil.Process(pool.pid).num_threads() == 1
        [first] = sweepers(pool)
        first.send_signal(signal.SIGKILL)
        wait_for(lambda: sweepers(pool) not in ([], [first]), what="another sweeper")
        [second] = sweepers(pool)
        pool.terminate()
        assert pool.wait(60) == 0
        assert not is_alive(second)
    finally:
        if pool.poll() is None:
            end(pool)


def sweepers(pool: subprocess.Popen[bytes]) -> list[psutil.Process]:
    below = psutil.Process(pool.pid).children()
    return [each for each in below if is_alive(each) and each.name() == "sweeper"]


def test_workers_of_a_killed_pool_are_not_counted(pool: subprocess.Popen[bytes]) -> None:
    wait_for(lambda: counted() == 2, seconds=60, what="two are counted")
    lost = registered()
    pool.kill()
    pool.wait()
    wait_for(lambda: counted() == 0, seconds=60, what="none is counted")
    # RQ still lists them; the next pool on this machine strikes them off.
    assert registered() == lost
    second = start("run_workers", "--workers", "1", HOLDPOINT_ROLE="worker")
    try:
        wait_for(lambda: len(registered()) == 1 and not registered() & lost, what="only its own")
        wait_for(lambda: counted() == 1, what="one is counted")
    finally:
        end(second)
    assert counted() == 0
    assert registered() == set()
