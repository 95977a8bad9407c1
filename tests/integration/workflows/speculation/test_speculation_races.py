"""Races of speculation: resumes that do not wait, concurrent jobs, killed workers."""

import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import django_rq
import pytest
from django.db import connection
from django.db.models.functions import Now

from tests.integration.workflows.conftest import Engine, review, source, value
from tests.integration.workflows.speculation.test_speculation import (
    AHEAD,
    chain,
    outcomes,
    paused,
    states,
)
from tests.support import toolkit
from workflows.executions import dispatch
from workflows.executions.jobs import speculate
from workflows.models import Execution, Grant, Speculation
from workflows.speculation import store as speculation_store


@pytest.fixture(autouse=True)
def quiet(servers: None) -> None:
    """Nobody waits for a worker."""
    for name in dispatch.QUEUES:
        django_rq.get_queue(name).empty()


def in_thread(action: Callable[[], Any]) -> threading.Thread:
    def run() -> None:
        try:
            action()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def seen(execution: Execution, what: str, wait: threading.Event) -> None:
    for _ in range(3000):
        if any(each["what"] == what for each in toolkit.calls(execution.pk)):
            return
        wait.wait(0.01)
    raise AssertionError(f"never saw {what!r}")


def test_a_resume_does_not_wait_for_running_speculation(engine: Engine) -> None:
    slow = {"id": "slow", "type": "tool", "tool": "testkit.first_is_slow", "arguments": {}}
    execution = engine.run(
        value("held", 1, **review("AFTER")), {**slow, "depends_on": ["held"]}, policy=AHEAD
    )
    quiet_now()
    ahead = in_thread(lambda: speculate(execution.pk))
    seen(execution, "begin", threading.Event())
    engine.decide(engine.holds(execution)[0])
    execution = engine.drive(execution)
    assert execution.status == "COMPLETED"
    assert execution.attempts.get(task_id="slow").output == "done"
    ahead.join(30)
    assert not ahead.is_alive()
    assert states(execution) == {"slow": "STOPPED"}
    assert outcomes(execution) == []
    assert execution.speculations.get().wasted_ms > 0


def quiet_now() -> None:
    django_rq.get_queue(dispatch.DEFAULT).empty()


def test_concurrent_jobs_make_one_result_per_key(engine: Engine) -> None:
    tasks = [value("held", 1, **review("AFTER"))]
    tasks += [value(f"a{n}", [n, source("held")]) for n in range(4)]
    tasks += [value(f"b{n}", source(f"a{n}")) for n in range(4)]
    execution = engine.run(*tasks, policy={"speculation": {"enabled": True, "max_tasks": 100}})
    quiet_now()
    together = threading.Barrier(3)

    def work() -> None:
        together.wait()
        speculate(execution.pk)

    threads = [in_thread(work) for _ in range(3)]
    for thread in threads:
        thread.join(60)
    speculate(execution.pk)
    assert Counter(engine.called(execution)) == Counter(task["id"] for task in tasks)
    assert set(states(execution).values()) == {"READY"}
    assert execution.speculations.count() == 8


def test_waiting_executions_have_priority(engine: Engine) -> None:
    execution = engine.run(*chain(), policy=AHEAD)
    django_rq.get_queue(dispatch.SPECULATION).empty()
    engine.start(value("other"))
    speculate(execution.pk)
    assert dispatch.queue_length(dispatch.SPECULATION) == 1
    assert set(states(execution)) == {"left", "right"}
    quiet_now()
    speculate(execution.pk)
    assert set(states(execution)) == {"left", "right", "left2", "right2"}
    assert max(Counter(engine.called(execution)).values()) == 1


def test_pauses_and_commands_enqueue_speculation(engine: Engine) -> None:
    execution = engine.run(*chain(), policy=AHEAD)
    assert dispatch.queue_length(dispatch.SPECULATION) == 1
    engine.command(execution, {"kind": "update_state", "updates": {"k": 1}})
    assert dispatch.queue_length(dispatch.SPECULATION) == 2
    engine.decide(engine.holds(execution)[0])
    engine.drive(execution)
    engine.run(*chain())
    assert dispatch.queue_length(dispatch.SPECULATION) == 2


def abandoned(execution: Execution) -> speculation_store.Claim:
    """A claim of a worker that died right after it."""
    Speculation.objects.all().delete()
    row = {"task_id": "b", "key": "k" * 64, "tool": "testkit.value", "behind": "testkit.value"}
    claim = speculation_store.claim(execution_id=execution.pk, patience=60, **row)
    assert claim is not None
    assert speculation_store.claim(execution_id=execution.pk, patience=60, **row) is None
    return claim


def test_a_killed_worker_does_no_harm(engine: Engine) -> None:
    execution = paused(engine, value("held", 1, **review("AFTER")), value("b", source("held")))
    late = abandoned(execution)
    engine.decide(engine.holds(execution)[0])
    execution = engine.drive(execution)
    assert execution.status == "COMPLETED"
    assert states(execution) == {"b": "STOPPED"}
    assert outcomes(execution) == []
    # It was not dead, just late: what it has lands nowhere.
    assert not speculation_store.save_result(late, "late", "", 1.0)


def test_claims_of_a_dead_worker_expire(engine: Engine) -> None:
    execution = paused(engine, value("held", 1, **review("AFTER")), value("b", source("held")))
    (row,) = execution.speculations.all()
    Speculation.objects.update(state="RUNNING", output="")
    speculate(execution.pk)
    assert states(execution) == {"b": "RUNNING"}
    Speculation.objects.update(started_at=Now() - timedelta(minutes=10))
    speculate(execution.pk)
    assert states(execution) == {"b": "READY"}
    row.refresh_from_db()
    assert row.output == "1"


def test_nothing_is_claimed_for_a_run_that_goes_on(engine: Engine) -> None:
    execution = paused(engine, value("held", 1, **review("AFTER")), value("b", source("held")))
    engine.decide(engine.holds(execution)[0])
    row = {"task_id": "b", "key": "k" * 64, "tool": "testkit.value", "behind": "testkit.value"}
    assert speculation_store.claim(execution_id=execution.pk, patience=60, **row) is None


def test_a_worker_killed_between_use_and_commit_loses_nothing(engine: Engine) -> None:
    """The next one finds the result where it was, and it counts once."""
    execution = paused(engine, value("held", 1, **review("AFTER")), value("b", source("held")))
    engine.decide(engine.holds(execution)[0])
    (row,) = execution.speculations.all()
    assert speculation_store.take([row]) == {row.pk}
    assert speculation_store.clean_up() == 0
    execution = engine.drive(execution)
    assert execution.status == "COMPLETED"
    assert outcomes(execution) == [("hit", "b")]
    assert engine.called(execution) == ["held", "b"]


def test_a_new_grant_changes_the_key(engine: Engine) -> None:
    execution = paused(engine, value("held", 1, **review("AFTER")), value("b", source("held")))
    (hold,) = engine.holds(execution)
    Grant.objects.create(
        scope="execution",
        execution=execution,
        hold=hold,
        task_id="b",
        subject="s",
        operation="net",
        resource="example.com:443",
        permissions={"hosts": ["example.com:443"]},
        granted_by="ann",
    )
    engine.decide(hold)
    execution = engine.drive(execution)
    assert outcomes(execution) == [("miss", "b")]
    assert engine.called(execution) == ["held", "b", "b"]
    # Looking whether a result stands uses no grant; running the task does.
    assert Grant.objects.get().uses == 1


def test_a_speculative_call_has_its_own_idempotency_key(engine: Engine) -> None:
    execution = paused(engine, value("held", 1, **review("AFTER")), value("b", source("held")))
    engine.decide(engine.holds(execution)[0], edits=2)
    engine.drive(execution)
    first, second = [each["key"] for each in toolkit.calls(execution.pk) if each["task"] == "b"]
    assert first.startswith(f"{execution.pk}:b:ahead-")
    assert second == f"{execution.pk}:b:1"
