"""One holder at a time: stale workers, repeated deliveries, commands during a layer."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now

from tests.integration.workflows.conftest import Engine, review, source, value
from tests.support import toolkit
from tests.support.processes import wait_for
from workflows.engine.protocol.events import ContextUpdated, MessageAdded
from workflows.engine.protocol.ports import LeaseLost, StaleVersion
from workflows.executions.jobs import advance, run_to_rest
from workflows.journal import writer as journal_writer
from workflows.models import Execution, ExecutionEvent


def in_thread(function: object, *args: object) -> object:
    try:
        return function(*args)  # type: ignore[operator]
    finally:
        connection.close()


def expire_lease(execution: Execution) -> None:
    Execution.objects.filter(pk=execution.pk).update(lease_until=Now() - timedelta(seconds=1))


def test_a_stale_worker_writes_nothing(engine: Engine) -> None:
    execution = engine.start(value("a"))
    first = journal_writer.DjangoJournal("first").claim(str(execution.pk))
    run = first.__enter__()
    assert run is not None
    run.record(MessageAdded(role="user", content="from the first"))
    expire_lease(execution)
    with journal_writer.DjangoJournal("second").claim(str(execution.pk)) as second:
        assert second is not None
        second.record(MessageAdded(role="user", content="from the second"))
        second.commit()
        with pytest.raises(LeaseLost):
            run.commit()
        run._watched = -10.0
        with pytest.raises(LeaseLost):
            run.heartbeat()
    told = ExecutionEvent.objects.filter(execution=execution, kind="message_added")
    assert [each.payload["content"] for each in told] == ["from the second"]


def test_a_held_execution_cannot_be_claimed(engine: Engine) -> None:
    execution = engine.start(value("a"))
    with journal_writer.DjangoJournal("a").claim(str(execution.pk)) as run:
        assert run is not None
        with journal_writer.DjangoJournal("b").claim(str(execution.pk)) as other:
            assert other is None


def test_a_resting_execution_cannot_be_claimed(engine: Engine) -> None:
    execution = engine.run(value("a", **review("BEFORE")))
    with journal_writer.DjangoJournal("a").claim(str(execution.pk)) as run:
        assert run is None


def test_the_same_job_delivered_twenty_times_has_one_effect(engine: Engine) -> None:
    execution = engine.start(value("a"), value("b", source("a")), value("c", source("b")))
    with ThreadPoolExecutor(20) as pool:
        for each in [pool.submit(in_thread, advance, execution.pk) for _ in range(20)]:
            each.result()
    execution = engine.drive(execution)
    assert execution.status == "COMPLETED"
    assert engine.called(execution) == ["a", "b", "c"]
    assert execution.attempts.count() == 3


def test_a_command_during_a_layer_waits_for_the_boundary(engine: Engine) -> None:
    slow = {"id": "slow", "type": "tool", "tool": "testkit.slow", "arguments": {"seconds": 1.0}}
    execution = engine.start(slow, value("after", source("context", "word"), depends_on=["slow"]))
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(in_thread, run_to_rest, execution.pk)
        wait_for(lambda: engine.called(execution, "begin"))
        result = engine.command(execution, {"kind": "update_state", "updates": {"word": "hello"}})
        assert result.outcome == "queued"
        job.result()
    execution.refresh_from_db()
    assert execution.status == "COMPLETED"
    assert execution.attempts.get(task_id="after").output == "hello"
    assert execution.queued_commands == 0


def test_an_abort_reaches_a_running_task_soon(engine: Engine) -> None:
    slow = {"id": "slow", "type": "tool", "tool": "testkit.slow", "arguments": {"seconds": 20}}
    execution = engine.start(slow, value("after", depends_on=["slow"]))
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(in_thread, run_to_rest, execution.pk)
        wait_for(lambda: engine.called(execution, "begin"))
        engine.command(execution, {"kind": "abort", "reason": "wrong branch"})
        wait_for(lambda: engine.called(execution, "cancelled"), seconds=10)
        job.result()
    execution.refresh_from_db()
    assert (execution.status, execution.error) == ("ABORTED", "wrong branch")
    assert engine.kinds(execution)[-1] == "execution_aborted"
    assert "after" not in {each["task"] for each in toolkit.calls(execution.pk)}


def test_twenty_commands_at_one_version_have_one_winner(engine: Engine) -> None:
    execution = engine.run(value("a", **review("BEFORE")))

    def update(number: int) -> str:
        data = {"kind": "update_state", "updates": {"winner": number}}
        try:
            return engine.command(execution, data, version=execution.version).outcome
        except StaleVersion:
            return "stale"

    with ThreadPoolExecutor(20) as pool:
        outcomes = [
            each.result() for each in [pool.submit(in_thread, update, n) for n in range(20)]
        ]
    assert sorted(outcomes) == ["applied"] + ["stale"] * 19
    assert engine.kinds(execution).count("context_updated") == 1


def test_a_failing_step_releases_the_lease_with_its_reason(
    engine: Engine,
) -> None:
    execution = engine.start(value("a"))

    def crash() -> None:
        with journal_writer.DjangoJournal("a").claim(str(execution.pk)) as run:
            assert run is not None
            run.record(ContextUpdated(updates={"x": 1}))
            raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError):
        crash()
    execution.refresh_from_db()
    assert execution.lease_until is None
    assert execution.wake_at is not None
    assert execution.error == "RuntimeError: the disk is full"
    assert execution.version == 0
