"""Count journal entries into metric counters; the sweeper calls this.

A scrape of /metrics then reads a few rows, however many executions there are.  Each entry is
counted exactly once: the cursor advances in the transaction that adds to the counters.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import connection, transaction

from workflows.journal.event_log import ReadWatermark
from workflows.models import EventCursor

from . import counters

NAME = "totals"
BATCH = 5000
#: Seconds that one round of the sweeper may spend on counting.
MAX_SECONDS = 1.0

LAYER_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
RESUME_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)

_RANGE = "id > %(after)s AND id <= %(until)s"

_COUNTS = f"""
SELECT kind, coalesce(payload->>'decision', ''), coalesce(payload->>'by_timeout', '') = 'true',
       payload->>'retry_at' IS NOT NULL, count(*)
  FROM workflows_executionevent
 WHERE {_RANGE}
 GROUP BY 1, 2, 3, 4
"""  # noqa: S608 - constants of this module

#: From the start of a layer to its last result, without the time of reviews after it.
_LAYERS = f"""
SELECT extract(epoch FROM last.at - first.at)::float8
  FROM (SELECT execution_id, seq FROM workflows_executionevent
         WHERE {_RANGE} AND kind = 'layer_closed') AS closed
 CROSS JOIN LATERAL (
    SELECT seq, created_at AS at FROM workflows_executionevent
     WHERE execution_id = closed.execution_id AND seq < closed.seq AND kind = 'layer_started'
     ORDER BY seq DESC LIMIT 1) AS first
 CROSS JOIN LATERAL (
    SELECT max(created_at) AS at FROM workflows_executionevent
     WHERE execution_id = closed.execution_id AND seq > first.seq AND seq < closed.seq
       AND kind IN ('task_succeeded', 'task_errored')) AS last
 WHERE last.at IS NOT NULL
"""  # noqa: S608

#: From the decision that resumed an execution to the first event of a worker.
_RESUMES = f"""
SELECT greatest(0, extract(epoch FROM event.created_at - before.created_at)
                   - coalesce((event.payload->>'duration_ms')::float8, 0) / 1000)::float8
  FROM (SELECT * FROM workflows_executionevent WHERE {_RANGE} AND source = 'worker') AS event
  JOIN workflows_executionevent AS before
    ON before.execution_id = event.execution_id AND before.seq = event.seq - 1
 WHERE before.kind = 'hold_decided' AND before.payload->>'resumed' = 'true'
"""  # noqa: S608

#: Programs that the sandbox ended, by the start of its error messages.
_KILLS = f"""
SELECT CASE WHEN payload->>'error' LIKE 'The program ran out of memory%%' THEN 'memory'
            WHEN payload->>'error' LIKE 'The program printed without end%%' THEN 'output'
            ELSE 'time' END, count(*)
  FROM workflows_executionevent
 WHERE {_RANGE} AND kind = 'task_errored'
   AND (payload->>'error' LIKE 'The program ran out of memory%%'
     OR payload->>'error' LIKE 'The program printed without end%%'
     OR payload->>'error' LIKE 'The program did not end within%%')
 GROUP BY 1
"""  # noqa: S608

_FINISHED = {
    "execution_completed": "COMPLETED",
    "execution_failed": "FAILED",
    "execution_aborted": "ABORTED",
}

_watermark = ReadWatermark()


def count_events() -> int:
    """Count new journal entries and return how many; a hook of the sweeper."""
    end, done = time.monotonic() + MAX_SECONDS, 0
    bound = _watermark.advance()
    while True:
        counted = _count_batch(bound)
        done += counted
        if not counted or time.monotonic() > end:
            return done


def _count_batch(bound: int) -> int:
    """Count one batch and return its length; 0 at the end, or if another sweeper counts."""
    with transaction.atomic():
        EventCursor.objects.get_or_create(name=NAME)
        cursor = EventCursor.objects.select_for_update(skip_locked=True).filter(name=NAME).first()
        if cursor is None or cursor.event >= bound:
            return 0
        part = {"after": cursor.event, "until": min(bound, cursor.event + BATCH)}
        counters.add(_amounts(part))
        EventCursor.objects.filter(name=NAME).update(event=part["until"])
    return part["until"] - part["after"]


def _amounts(part: Mapping[str, int]) -> Counter[tuple[str, str]]:
    amounts: Counter[tuple[str, str]] = Counter()
    for kind, decision, by_timeout, retried, number in _rows(_COUNTS, part):
        key = _key(kind, decision, by_timeout=by_timeout, retried=retried)
        if key is not None:
            amounts[key] += number
    for reason, number in _rows(_KILLS, part):
        amounts[("sandbox_kills", reason)] += number
    _observe(amounts, "layer_seconds", LAYER_BUCKETS, _rows(_LAYERS, part))
    _observe(amounts, "resume_seconds", RESUME_BUCKETS, _rows(_RESUMES, part))
    return amounts


def _key(kind: str, decision: str, *, by_timeout: bool, retried: bool) -> tuple[str, str] | None:
    if kind in _FINISHED:
        return "executions_finished", _FINISHED[kind]
    if kind == "execution_started":
        return "executions_started", ""
    if kind == "hold_decided":
        return "decisions", "timeout" if by_timeout else decision.lower()
    if kind == "task_succeeded":
        return "tasks", "succeeded"
    if kind == "task_errored":
        return "tasks", "retried" if retried else "failed"
    return None


def _observe(
    amounts: Counter[tuple[str, str]], name: str, buckets: tuple[float, ...], rows: Iterable[Any]
) -> None:
    """Add durations to a histogram, whose labels are bucket numbers and "sum"."""
    for (seconds,) in rows:
        amounts[(name, str(bisect_left(buckets, seconds)))] += 1
        amounts[(name, "sum")] += seconds


def _rows(statement: str, part: Mapping[str, int]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, part)
        return list(cursor.fetchall())
