"""Past reviews with the data that rules evaluate: task, payload and outcome."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection
from pydantic import TypeAdapter, ValidationError

from reviews.models import Backtest, open_payload
from workflows.engine.plans.dag import TaskSpec
from workflows.engine.policy.policies import TriggerPhase

from .totals import PastReview, outcome_of

#: Only the last decision on a hold counts as the review, not the earlier approvals of a quorum.
_RECORDS: Final = """
  FROM reviews_humanreviewrecord r
  JOIN workflows_execution e ON e.id = r.execution_id
 WHERE e.workflow_id = %(workflow)s AND r.reason = 'node_review'
   AND r.decision IN ('APPROVE', 'REJECT')
   AND (%(since)s::timestamptz IS NULL OR r.reviewed_at >= %(since)s)
   AND (%(until)s::timestamptz IS NULL OR r.reviewed_at < %(until)s)
   AND r.id <= %(newest)s
   AND NOT EXISTS (SELECT 1 FROM reviews_humanreviewrecord later
                    WHERE later.hold_id = r.hold_id AND later.id > r.id
                      AND later.decision IN ('APPROVE', 'REJECT'))
"""
_COUNT: Final = f"SELECT count(*) FROM (SELECT 1 {_RECORDS} LIMIT %(limit)s) AS found"  # noqa: S608
_BATCH: Final = f"""
SELECT p.*, plans.task, a.id IS NOT NULL, a.inputs,
       extract(epoch FROM p.reviewed_at - c.claimed_at), k.key
  FROM (SELECT r.id, r.execution_id, r.node_id, r.target, r.trigger_phase, r.decision, r.is_edited,
               r.reviewer_id IS NOT NULL, r.actor, r.change_count, r.waited_seconds,
               r.original_data, r.sealed, e.state ->> 'origin', e.revision, r.hold_id, r.reviewed_at
          {_RECORDS} AND (%(cursor)s = 0 OR r.id < %(cursor)s)
         ORDER BY r.id DESC LIMIT %(limit)s) AS p
  LEFT JOIN LATERAL (
       SELECT jsonb_path_query_first(plan, '$.tasks[*] ? (@.id == $id)',
                                     jsonb_build_object('id', p.node_id)) AS task
         FROM workflows_planrevision
        WHERE execution_id = p.execution_id AND number = p.revision) AS plans ON true
  LEFT JOIN workflows_taskattempt a
    ON a.execution_id = p.execution_id AND a.task_id = p.node_id AND a.settled
  LEFT JOIN reviews_claimstart c ON c.hold_id = p.hold_id
  LEFT JOIN reviews_payloadkey k ON k.execution_id = p.execution_id
 ORDER BY p.id DESC
"""  # noqa: S608 - made of constants


@dataclass(frozen=True, slots=True)
class ReviewCase:
    """A past review and the data that rules evaluate; `unknown` is a code if data is missing."""

    past: PastReview
    phase: TriggerPhase
    run: str
    task: Any
    document: dict[str, Any]
    unknown: str = ""


def newest_record() -> int:
    """Return the id of the newest record."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(max(id), 0) FROM reviews_humanreviewrecord")
        return int(cursor.fetchone()[0])


def count(backtest: Backtest, *, most: int) -> int:
    """Count the reviews of a backtest, up to `most`."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, {**_range(backtest), "limit": most})
        return int(cursor.fetchone()[0])


def batch(backtest: Backtest, *, cursor: int, limit: int) -> Iterator[ReviewCase]:
    """Return the next reviews before record `cursor` (0 starts at the newest), newest first."""
    with connection.cursor() as database:
        database.execute(_BATCH, {**_range(backtest), "cursor": cursor, "limit": limit})
        rows = database.fetchall()
    return (_reviewed(row) for row in rows)


def _range(backtest: Backtest) -> dict[str, Any]:
    return {
        "workflow": backtest.workflow_id,
        "since": backtest.since,
        "until": backtest.until,
        "newest": backtest.newest,
    }


def _reviewed(row: tuple[Any, ...]) -> ReviewCase:
    number, execution, node, target, phase, decision, edited, by_person, actor, changes, waited = (
        row[:11]
    )
    original, sealed, origin = row[11:14]
    written, has_attempt, inputs, desk, key = row[17:]
    past = PastReview(
        record=number,
        execution=execution,
        node=node,
        target=target,
        outcome=outcome_of(decision=decision, edited=edited, by_person=by_person),
        waited=float(waited),
        desk=None if desk is None else max(0.0, float(desk)),
        changes=changes,
        reviewer=actor,
    )
    task = _task(written)
    run = origin or str(execution)
    shown = None if original is None else json.loads(original)
    if sealed and key:
        shown = open_payload(sealed, key).original
    before = phase == TriggerPhase.BEFORE_EXECUTION
    if task is None:
        return ReviewCase(past, TriggerPhase(phase), run, None, {}, "no_plan")
    if before and shown is None:
        return ReviewCase(past, TriggerPhase(phase), run, task, {}, "no_payload")
    if before:
        return ReviewCase(past, TriggerPhase(phase), run, task, {"inputs": shown})
    if not has_attempt or inputs is None:
        return ReviewCase(past, TriggerPhase(phase), run, task, {}, "no_inputs")
    document = {"inputs": json.loads(inputs), "output": shown}
    return ReviewCase(past, TriggerPhase(phase), run, task, document)


_ADAPTER: Final[TypeAdapter[Any]] = TypeAdapter(TaskSpec)


def _task(written: str | None) -> Any:
    """Parse the task of the plan; None if it is missing or no longer valid."""
    if written is None:
        return None
    try:
        return _ADAPTER.validate_json(written)
    except ValidationError:
        return None
