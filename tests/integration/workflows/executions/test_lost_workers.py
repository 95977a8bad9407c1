"""A run that loses its workers again and again ends as FAILED; one that goes on is left alone."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models.functions import Now

from tests.integration.workflows.conftest import Engine, review, value
from tests.support.processes import engine_processes, wait_for
from workflows.engine.protocol.events import MessageAdded
from workflows.executions import recovery
from workflows.executions.services import fail_lost_execution
from workflows.journal import sweeper_queries as journal_due
from workflows.journal import writer as journal_writer
from workflows.models import CommandLog, Execution

FINAL = ("COMPLETED", "FAILED", "ABORTED")


def deadly(times: int) -> dict[str, Any]:
    return {
        "id": "deadly",
        "type": "tool",
        "tool": "testkit.kills_its_worker",
        "arguments": {"times": times},
    }


def ended(execution: Execution) -> Execution:
    def found() -> Execution | None:
        return Execution.objects.filter(pk=execution.pk, status__in=FINAL).first()

    return wait_for(found, seconds=90, what="the run ends")


@pytest.fixture(autouse=True)
def claims(engine: Engine) -> Iterator[None]:
    """What `lose` has claimed is let go after the test, while there is a database."""
    yield
    while _CLAIMED:
        _CLAIMED.pop().__exit__(None, None, None)


_CLAIMED: list[Any] = []


def lose(execution: Execution) -> None:
    """Claim as a worker that dies: the lease is never given back, and its time passes."""
    claim = journal_writer.DjangoJournal("lost").claim(str(execution.pk))
    assert claim.__enter__() is not None
    _CLAIMED.append(claim)
    lapse(execution)


def lapse(execution: Execution) -> None:
    Execution.objects.filter(pk=execution.pk).update(lease_until=Now() - timedelta(seconds=1))


def refused(execution: Execution) -> bool:
    with journal_writer.DjangoJournal("another").claim(str(execution.pk)) as run:
        return run is None


# --- real processes -------------------------------------------------------------------------------


def test_a_task_that_kills_its_worker_each_time_ends_its_run(engine: Engine) -> None:
    execution = engine.start(deadly(99), value("beside"))
    other = engine.start(value("a"))
    with engine_processes(workers=1):
        failed = ended(execution)
        assert ended(other).status == "COMPLETED"
    assert failed.status == "FAILED"
    assert "3 workers in a row ended without recording a step" in failed.error
    assert "tasks under way: beside, deadly" in failed.error
    assert engine.called(execution, "begin") == ["deadly"] * 3
    assert engine.kinds(execution)[-1] == "execution_failed"
    last = execution.events.order_by("seq").last()
    assert last is not None
    assert last.payload["error"] == failed.error
    assert (last.actor, last.source) == ("system", "sweeper")


def test_a_task_that_kills_its_worker_twice_completes(engine: Engine) -> None:
    execution = engine.start(deadly(2))
    with engine_processes(workers=1):
        assert ended(execution).status == "COMPLETED"
    assert engine.called(execution, "begin") == ["deadly"] * 3


# --- claims, one by one ---------------------------------------------------------------------------


def test_after_three_lost_claims_no_worker_gets_the_run_and_the_sweeper_ends_it(
    engine: Engine,
) -> None:
    execution = engine.start(value("a"))
    for _ in range(2):
        lose(execution)
        assert recovery.fail_lost_executions() == 0
    lose(execution)
    assert refused(execution)
    assert recovery.fail_lost_executions() == 1
    execution.refresh_from_db()
    assert execution.status == "FAILED"
    assert "3 workers in a row" in execution.error
    assert engine.kinds(execution) == ["execution_started", "execution_failed"]
    assert execution.finished_at is not None
    # Nothing is left to do, and nothing is sent again.
    assert recovery.fail_lost_executions() == 0
    assert recovery.sweep().enqueued == 0
    assert CommandLog.objects.filter(execution=execution, kind="fail_execution").count() == 1


def test_a_recorded_step_resets_the_count(engine: Engine) -> None:
    execution = engine.start(value("a"))
    for _ in range(3):
        for _ in range(2):
            lose(execution)
        with journal_writer.DjangoJournal("steps").claim(str(execution.pk)) as run:
            assert run is not None
            run.record(MessageAdded(role="user", content="a step"))
            run.commit()
    assert recovery.fail_lost_executions() == 0
    assert engine.drive(execution).status == "COMPLETED"


def test_a_worker_that_is_only_slow_is_not_lost(engine: Engine) -> None:
    execution = engine.start(value("a"))
    for _ in range(2):
        lose(execution)
    with journal_writer.DjangoJournal("slow").claim(str(execution.pk)) as run:
        assert run is not None
        assert recovery.fail_lost_executions() == 0
        lapse(execution)
        [found] = journal_due.unclaimable_executions()
        run._renewed = run._watched = -1000.0
        assert run.heartbeat() is False
        assert not fail_lost_execution(
            execution_id=found.execution_id, version=found.version, lost=found.lost, error=""
        )
        run.record(MessageAdded(role="user", content="still here"))
        run.commit()
    assert engine.drive(execution).status == "COMPLETED"


def test_three_worker_errors_end_the_run_with_their_reason(engine: Engine) -> None:
    execution = engine.start(value("a"))
    for _ in range(3):
        with (
            pytest.raises(KeyError),
            journal_writer.DjangoJournal("stumbles").claim(str(execution.pk)),
        ):
            raise KeyError("somewhere")
        Execution.objects.filter(pk=execution.pk).update(wake_at=None)
    assert recovery.fail_lost_executions() == 1
    execution.refresh_from_db()
    assert execution.status == "FAILED"
    assert "KeyError: 'somewhere'" in execution.error


@pytest.mark.parametrize("error", [OperationalError("away"), KeyboardInterrupt()])
def test_outages_and_shutdowns_do_not_count(engine: Engine, error: BaseException) -> None:
    execution = engine.start(value("a"))
    for _ in range(5):
        with pytest.raises(type(error)), journal_writer.DjangoJournal("w").claim(str(execution.pk)):
            raise error
        Execution.objects.filter(pk=execution.pk).update(wake_at=None)
    assert recovery.fail_lost_executions() == 0
    assert engine.drive(execution).status == "COMPLETED"


def test_the_limit_is_a_setting_and_0_disables_it(engine: Engine, settings: Any) -> None:
    execution = engine.start(value("a"))
    settings.HOLDPOINT = {**settings.HOLDPOINT, "lost_claims_limit": 0}
    for _ in range(6):
        lose(execution)
    assert recovery.fail_lost_executions() == 0
    settings.HOLDPOINT = {**settings.HOLDPOINT, "lost_claims_limit": 7}
    assert recovery.fail_lost_executions() == 0
    settings.HOLDPOINT = {**settings.HOLDPOINT, "lost_claims_limit": 6}
    assert recovery.fail_lost_executions() == 1


def test_a_resting_run_never_fails(engine: Engine) -> None:
    execution = engine.start(value("a", **review("BEFORE")))
    for _ in range(2):
        lose(execution)
    assert engine.drive(execution).status == "PAUSED_FOR_REVIEW"
    assert recovery.fail_lost_executions() == 0
    execution.refresh_from_db()
    assert execution.lost_claims == 0
