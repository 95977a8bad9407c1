"""The journal's use of PostgreSQL: prepared statements and asynchronous commits."""

import pytest
from django.db import DataError, connection

from tests.integration.workflows.conftest import Engine, value
from tests.integration.workflows.journal.test_leases import in_thread
from workflows.engine.protocol.events import MessageAdded
from workflows.engine.protocol.ports import LeaseLost
from workflows.executions.jobs import run_to_rest
from workflows.journal import sql
from workflows.journal import sweeper_queries as journal_due
from workflows.journal import writer as journal_writer
from workflows.models import CommandLog, Execution, ExecutionEvent


def prepared() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements ORDER BY prepare_time")
        return [row[0] for row in cursor.fetchall()]


def show(setting: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW {setting}")
        return str(cursor.fetchone()[0])


def row(execution: Execution) -> dict[str, object]:
    return Execution.objects.values("fence", "version", "lease_owner", "lease_until").get(
        pk=execution.pk
    )


# --- prepared statements --------------------------------------------------------------------------


def test_only_the_journals_statements_are_prepared(engine: Engine) -> None:
    connection.close()
    execution = engine.start(value("a"), value("b", depends_on=["a"]))
    connection.close()
    assert prepared() == []
    engine.drive(execution)
    for _ in range(8):
        assert Execution.objects.filter(pk=execution.pk).exists()
    found = prepared()
    assert sum("SET lease_owner" in each for each in found) >= 1
    assert all("workflows_" in each for each in found)
    assert not any("LIMIT 1" in each for each in found)
    assert len(found) == len(set(found)), "a statement is prepared once"


def test_a_new_connection_prepares_anew(engine: Engine) -> None:
    first = engine.start(value("a"))
    engine.drive(first)
    connection.close()
    assert engine.run(value("a")).status == "COMPLETED"


def test_each_thread_prepares_its_own_statements(engine: Engine) -> None:
    engine.run(value("a"))
    execution = engine.start(value("a"))
    assert in_thread(run_to_rest, execution.pk).status == "COMPLETED"  # type: ignore[attr-defined]


def test_a_database_error_is_djangos_own(engine: Engine) -> None:
    with pytest.raises(DataError):
        journal_writer.execute("SELECT 1 / %(nothing)s::int", {"nothing": 0})
    assert journal_writer.execute("SELECT %(one)s::int", {"one": 1}) == [(1,)]


# --- a claim that never reached the disk ----------------------------------------------------------


def test_only_the_claim_commits_asynchronously(engine: Engine) -> None:
    execution = engine.start(value("a"))
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = on")
    with journal_writer.DjangoJournal("one").claim(str(execution.pk)) as run:
        assert run is not None
        assert show("synchronous_commit") == "on", "steps are waited for again"
    assert "synchronous_commit" not in sql.COMMIT_STEP + sql.QUEUE + sql.RENEW_LEASE + sql.REST


def test_a_claim_lost_in_a_database_crash_is_harmless(engine: Engine) -> None:
    """Two workers then hold the same fence; the version lets one of them land."""
    execution = engine.start(value("a"))
    before = row(execution)
    with journal_writer.DjangoJournal("first").claim(str(execution.pk)) as first:
        assert first is not None
        claimed = row(execution)
        Execution.objects.filter(pk=execution.pk).update(**before)  # as after the crash
        with journal_writer.DjangoJournal("second").claim(str(execution.pk)) as second:
            assert second is not None
            assert row(execution)["fence"] == claimed["fence"]
            second.record(MessageAdded(role="user", content="from the second"))
            second.commit()
            first.record(MessageAdded(role="user", content="from the first"))
            with pytest.raises(LeaseLost):
                first.commit()
            first.held = False
    told = ExecutionEvent.objects.filter(execution=execution, kind="message_added")
    assert [each.payload["content"] for each in told] == ["from the second"]
    assert engine.drive(execution).status == "COMPLETED"


def test_a_lost_claim_leaves_work_that_the_sweeper_finds(engine: Engine) -> None:
    execution = engine.start(value("a"))
    before = row(execution)
    with journal_writer.DjangoJournal("first").claim(str(execution.pk)) as first:
        assert first is not None
        Execution.objects.filter(pk=execution.pk).update(
            **before, dispatched_at="2000-01-01T00:00Z"
        )
        assert execution.pk in journal_due.take_overdue(patience=1)
        first.held = False


# --- the command log ------------------------------------------------------------------------------


def test_an_applied_command_and_its_log_are_one_step(engine: Engine) -> None:
    execution = engine.run(value("a", human_review={"trigger_phase": "BEFORE_EXECUTION"}))
    result = engine.command(execution, {"kind": "update_state", "updates": {"k": 1}})
    logged = CommandLog.objects.get(execution=execution)
    assert (logged.kind, logged.actor, logged.source) == ("update_state", "somebody", "test")
    assert (logged.outcome, logged.version) == ("applied", result.version)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT xmin::text FROM workflows_commandlog WHERE execution_id = %s),"
            " (SELECT xmin::text FROM workflows_executionevent"
            "   WHERE execution_id = %s AND kind = 'context_updated')",
            [execution.pk, execution.pk],
        )
        assert len(set(cursor.fetchone())) == 1


def test_a_queued_command_is_logged_where_it_is_queued(engine: Engine) -> None:
    execution = engine.start(value("a"))
    with journal_writer.DjangoJournal("one").claim(str(execution.pk)):
        result = engine.command(execution, {"kind": "update_state", "updates": {"k": 1}})
        assert (result.outcome, result.version) == ("queued", execution.version)
    assert CommandLog.objects.get(execution=execution).outcome == "queued"
    assert engine.drive(execution).context == {"k": 1}
