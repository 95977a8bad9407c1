"""Real worker processes, killed; a real Redis, emptied.  Every run ends right."""

import os
import signal

import django_rq
import psutil

from tests.integration.workflows.conftest import Engine, source, value
from tests.support import toolkit
from tests.support.processes import engine_processes, wait_for, worker_pids
from workflows.models import Execution, TaskAttempt

FINAL = ("COMPLETED", "FAILED", "ABORTED")


def slow(name: str, seconds: float) -> dict[str, object]:
    return {
        "id": name,
        "type": "tool",
        "tool": "testkit.slow",
        "arguments": {"seconds": seconds},
    }


def start_runs(engine: Engine, count: int) -> list[Execution]:
    return [
        engine.start(
            slow("a", 0.3),
            slow("b", 0.6),
            value("c", [source("a"), source("b")]),
            slow("d", 0.2) | {"depends_on": ["c"]},
        )
        for _ in range(count)
    ]


def all_done(executions: list[Execution]) -> bool:
    wanted = [each.pk for each in executions]
    return Execution.objects.filter(pk__in=wanted, status__in=FINAL).count() == len(wanted)


def assert_each_ended_right(executions: list[Execution]) -> None:
    for execution in executions:
        execution.refresh_from_db()
        assert execution.status == "COMPLETED"
        settled = TaskAttempt.objects.filter(execution=execution, settled=True)
        assert sorted(settled.values_list("task_id", flat=True)) == ["a", "b", "c", "d"]
        seqs = list(execution.events.values_list("seq", flat=True))
        assert seqs == list(range(1, execution.version + 1))
        keys = {
            each["key"] for each in toolkit.calls(execution.pk) if each["task"] in ("a", "b", "d")
        }
        # A repetition after a crash carries the key of the attempt it repeats.
        assert len(keys) == 3


def test_killed_workers_and_a_flushed_redis_lose_nothing(engine: Engine) -> None:
    executions = start_runs(engine, 6)
    with engine_processes(workers=2) as pool:
        wait_for(lambda: any(e["what"] == "begin" for e in toolkit.calls()), what="a first task")
        victim = worker_pids(pool)[0]
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: not psutil.pid_exists(victim) or len(worker_pids(pool)) == 2)
        django_rq.get_connection("default").flushdb()
        wait_for(lambda: all_done(executions), seconds=60, what="all runs done")
    assert_each_ended_right(executions)


def test_a_flushed_redis_while_runs_wait_in_the_queue(engine: Engine) -> None:
    executions = start_runs(engine, 3)
    django_rq.get_connection("default").flushdb()
    with engine_processes(workers=1):
        wait_for(lambda: all_done(executions), seconds=60, what="all runs done")
    assert_each_ended_right(executions)
