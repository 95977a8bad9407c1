"""The log of all journals: an entry that is committed late is not passed over."""

import psycopg
from psycopg import conninfo

from tests.integration.workflows.webhooks.conftest import run, send_all
from tests.support.processes import database_url
from workflows.journal import sql
from workflows.journal.event_log import ReadWatermark
from workflows.models import Execution, ExecutionEvent

_STEP = """
WITH moved AS (
    UPDATE workflows_execution SET version = version + 1, status = 'RUNNING', state = '{}'::jsonb
     WHERE id = %s RETURNING id, version)
INSERT INTO workflows_executionevent (execution_id, seq, kind, payload, actor, source)
SELECT id, version, 'agent_requested', '{}', '', '' FROM moved
"""


def test_an_entry_committed_late_is_still_sent(engine, owner, receiver, register, sender) -> None:
    """A step that got its ids first and commits last, as the journal's own statement has it."""
    assert sql.COMMIT_STEP.index("UPDATE workflows_execution") < sql.COMMIT_STEP.index("{parts}")
    register()
    late = Execution.objects.create(title="late", created_by=owner)
    with psycopg.connect(database_url()) as other:
        other.execute(_STEP, [late.pk])
        early = run(engine, owner)
        for _ in range(5):
            sender.round()
        # Nothing from behind the open transaction is read yet.
        assert receiver.got == []
        other.commit()
    send_all(sender)
    assert receiver.order(late.pk) == [1]
    assert len(receiver.order(early.pk)) == early.version


def test_the_watermark_reaches_the_newest_entry_when_nothing_is_open(engine, owner) -> None:
    watermark = ReadWatermark()
    run(engine, owner)
    newest = ExecutionEvent.objects.order_by("-pk").values_list("pk", flat=True).first()
    assert watermark.advance() == newest


def test_a_watermark_asks_once_while_nothing_happens(
    engine, owner, django_assert_num_queries
) -> None:
    watermark = ReadWatermark()
    run(engine, owner)
    reached = watermark.advance()
    with django_assert_num_queries(1):
        assert watermark.advance() == reached
    run(engine, owner)
    assert watermark.advance() == ExecutionEvent.objects.latest("pk").pk > reached


def test_a_read_only_transaction_delays_nothing(engine, owner) -> None:
    with psycopg.connect(database_url()) as reader:
        reader.execute("SELECT 1")
        run(engine, owner)
        newest = ExecutionEvent.objects.order_by("-pk").values_list("pk", flat=True).first()
        assert ReadWatermark().advance() == newest


def test_a_write_in_another_database_delays_nothing(engine, owner) -> None:
    """Databases of one server count transactions together; their entries are apart."""
    elsewhere = conninfo.make_conninfo(database_url(), dbname="postgres")
    with psycopg.connect(elsewhere) as other:
        other.execute("SELECT pg_current_xact_id()")
        run(engine, owner)
        newest = ExecutionEvent.objects.order_by("-pk").values_list("pk", flat=True).first()
        assert ReadWatermark().advance(patience=10) == newest
