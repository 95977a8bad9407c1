"""Retention among very many runs: a batch reads what it erases, and lists are as quick meanwhile.

The runs are erased for good: pytest-django runs tests that commit after those that do not.
`make scale` runs it, and so does any number of executions in HOLDPOINT_SCALE.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Final

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from reviews.models import RetentionEntry, RetentionPolicy
from reviews.retention.selectors import PREVIEWED_RUNS, preview
from reviews.retention.services import BATCH, erase_batch
from tests.scale import requests
from tests.scale.filling import Filled
from tests.scale.plans import Query, explained
from tests.scale.test_lists import LISTS, MAX_PAGES, ask
from workflows.models import Execution

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("HOLDPOINT_SCALE" not in os.environ, reason="make scale runs it"),
]

#: Rows of runs that no list reads.
_MORE: Final = {
    "workflows_taskattempt": """
        (execution_id, task_id, attempt, layer, revision, status, skip_reason, settled, error, logs,
         duration_ms)
        SELECT id, task, 1, 1, 1, 'COMPLETED', '', true, '', '', 5
          FROM workflows_execution, unnest(ARRAY['draft', 'publish']) AS task""",
    "workflows_checkpoint": """
        (execution_id, layer, version, revision, context, state)
        SELECT id, 1, 5, 1, '{}', '{}' FROM workflows_execution""",
    "workflows_planrevision": """
        (execution_id, number, plan, layers, cause)
        SELECT id, 1, '{"tasks": []}', '[]', 'start' FROM workflows_execution""",
    "workflows_commandlog": """
        (execution_id, kind, actor, source, outcome, detail)
        SELECT id, 'abort', 'ann', 'rest', 'refused', '' FROM workflows_execution""",
    "workflows_shaper": """
        (execution_id, user_id, way, since)
        SELECT id, created_by_id, 'start', 0 FROM workflows_execution""",
    "reviews_notice": """
        (user_id, kind, execution_id, hold_id, actor, detail, key)
        SELECT run.created_by_id, 'opened', run.id, hold.id, '', '{}', hold.id
          FROM workflows_execution AS run
          JOIN workflows_hold AS hold ON hold.execution_id = run.id""",
}
#: For each run of a batch: pages of 8 kB, and rows of one table, with triggers and foreign keys.
PAGES_PER_RUN: Final = 500
ROWS_PER_RUN: Final = 30
SHOWN: Final = (
    "queue open", "queue decided", "REST pending open", "history", "history rare words", "runs",
    "runs failed", "REST runs",
)  # fmt: skip


@pytest.fixture
def policy(filled: Filled) -> RetentionPolicy:
    """A policy over about half of the runs, which have rows of more kinds than `filled` makes."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        for table, rows in _MORE.items():
            cursor.execute(f"INSERT INTO {table} {rows}")
        cursor.execute("SET session_replication_role = origin")
        cursor.execute(f"ANALYZE {', '.join(_MORE)}")
    days = filled.count * 10 // 86_400 // 2
    return RetentionPolicy.objects.create(keep_days=max(1, days), enabled=True, erase_records=True)


def read_rows() -> dict[str, tuple[int, int]]:
    """Table → its rows that this transaction read without an index, and with one.

    The numbers include statements inside of functions, which EXPLAIN does not show.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, seq_tup_read, coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables"
        )
        return {name: (scanned, fetched) for name, scanned, fetched in cursor.fetchall()}


def explained_batch(policy: RetentionPolicy) -> tuple[Query, Query, dict[str, tuple[int, int]]]:
    """Erase a batch, and return its statements and the rows that the erasing one read."""
    with CaptureQueriesContext(connection) as seen, transaction.atomic():
        assert erase_batch(policy) == BATCH
        transaction.set_rollback(True)
    find, erase = (each["sql"] for each in seen if each["sql"].startswith("SELECT"))
    found = explained(find)
    with transaction.atomic():
        before = read_rows()
        erased = explained(erase)
        after = read_rows()
    rows = {
        name: (scanned - before[name][0], fetched - before[name][1])
        for name, (scanned, fetched) in after.items()
    }
    return found, erased, rows


def check_batch(policy: RetentionPolicy) -> int:
    """Return the pages that the batch touched."""
    found, erased, rows = explained_batch(policy)
    most = max(rows, key=lambda name: rows[name][1])
    sys.stderr.write(
        f"\nbatch: {found.buffers:5} pages to find it, {erased.buffers:6} pages and"
        f" {erased.ms:5.0f} ms to erase it; most rows: {rows[most][1]:5} of {most}"
    )
    size = BATCH
    assert not found.scanned, found.plan
    assert not found.whole, found.plan
    assert found.buffers <= MAX_PAGES
    assert erased.buffers <= PAGES_PER_RUN * size
    tables = {*_MORE, "workflows_execution", "workflows_executionevent", "workflows_hold",
              "reviews_humanreviewrecord", "reviews_claimstart", "workflows_audience"}  # fmt: skip
    assert tables <= rows.keys()
    assert {name for name in tables if rows[name][0]} == set()
    assert {name for name, (_, fetched) in rows.items() if fetched > ROWS_PER_RUN * size} == set()
    return found.buffers + erased.buffers


def test_lists_stay_bounded_while_half_of_the_runs_are_erased(
    filled: Filled, policy: RetentionPolicy
) -> None:
    seen = preview(policy)
    assert filled.count / 3 < seen.runs < filled.count * 2 / 3
    assert seen.counted == PREVIEWED_RUNS
    assert seen.rows["task attempts"] == 2 * seen.rows["shapers"] == 2 * PREVIEWED_RUNS
    first = check_batch(policy)

    asked = threading.Event()
    most = seen.runs // BATCH * 2 // 3  # leaves some for the last check

    def erase() -> None:
        try:
            for _ in range(most):
                if asked.is_set() or not erase_batch(policy):
                    break
        finally:
            connection.close()

    thread = threading.Thread(target=erase)
    thread.start()
    try:
        for what in SHOWN:
            for name in requests.ASKING_FEW:
                answer = ask(filled, name, LISTS[what])
                assert not answer.scanned, (what, name, answer.worst())
                assert not answer.whole, (what, name, answer.worst())
                assert answer.buffers <= MAX_PAGES, (what, name, answer.worst())
    finally:
        asked.set()
        thread.join()

    # Entries of erased runs are still in the indexes.
    assert check_batch(policy) <= 3 * first
    batches = RetentionEntry.objects.filter(kind=RetentionEntry.Kind.ERASED)
    assert batches.count() >= 4
    named = {run for runs in batches.values_list("executions", flat=True) for run in runs}
    erased = Execution.objects.exclude(erased_at=None).values_list("pk", flat=True)
    assert named == set(erased)
    sys.stderr.write(f"\nerased {len(named):,} of {seen.runs:,} due runs")
