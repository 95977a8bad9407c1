"""Run backtests in batches of records, on the low-priority queue.

Each batch is saved with one guarded UPDATE: a worker that has lost its claim changes nothing, and
the next worker continues after the last saved batch.
"""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from functools import partial
from typing import Any, Final

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from reviews.models import Backtest
from workflows.engine.policy.policies import ReviewRules
from workflows.engine.protocol.review_rules import evaluate_rules
from workflows.engine.values.bounded_json import digest
from workflows.executions import dispatch
from workflows.models import ExecutionEvent

from . import past_reviews, totals

logger = logging.getLogger(__name__)

JOB: Final = "reviews.backtests.jobs.run_backtest"
#: The maximum number of reviews of one backtest, newest first; the report notes a cut.
MAX_REVIEWS: Final = 50_000
BATCH: Final = 200
#: Seconds after which a job yields to others, and after which a claim expires.
SLICE_SECONDS: Final = 2.0
LEASE_SECONDS: Final = 60
_UNFINISHED = (Backtest.Status.QUEUED, Backtest.Status.RUNNING)


def enqueue(backtest_id: int) -> None:
    """Enqueue the job when the current transaction commits."""
    transaction.on_commit(partial(dispatch.enqueue, JOB, backtest_id, queue=dispatch.LOW))


def enqueue_unclaimed() -> int:
    """Enqueue unclaimed backtests if the queue is empty; return their number."""
    rows = Backtest.objects.filter(_claimable()).order_by("pk")
    unclaimed = list(rows.values_list("pk", flat=True)[:20])
    if not unclaimed or dispatch.queue_length(dispatch.LOW):
        return 0
    for pk in unclaimed:
        dispatch.enqueue(JOB, pk, queue=dispatch.LOW)
    return len(unclaimed)


def run_backtest(backtest_id: int) -> None:
    """Process batches for a time slice, then enqueue the job again if there are more."""
    if advance(backtest_id, seconds=SLICE_SECONDS):
        dispatch.enqueue(JOB, backtest_id, queue=dispatch.LOW)


def advance(backtest_id: int, *, seconds: float = float("inf")) -> bool:
    """Process batches of a backtest for `seconds`; return whether there are more.

    Does nothing if another worker has claimed the backtest, or it has ended.
    """
    backtest = _claim(backtest_id)
    if backtest is None:
        return False
    end = time.monotonic() + seconds
    try:
        while _step(backtest):
            if time.monotonic() > end:
                return bool(Backtest.objects.filter(_claimed(backtest)).update(lease_until=None))
    except (OperationalError, InterfaceError):
        # A database failure does not fail the backtest: the sweeper enqueues it again.
        raise
    except Exception as error:
        logger.exception("backtest %s failed", backtest_id)
        Backtest.objects.filter(_claimed(backtest)).update(
            status=Backtest.Status.FAILED,
            error=f"{type(error).__name__}: {error}"[:500],
            finished_at=Now(),
            lease_until=None,
        )
    return False


def _claimable() -> Q:
    lapsed = Q(lease_until__isnull=True) | Q(lease_until__lt=Now())
    return lapsed & Q(status__in=_UNFINISHED)


def _claim(backtest_id: int) -> Backtest | None:
    taken = Backtest.objects.filter(_claimable(), pk=backtest_id).update(
        status=Backtest.Status.RUNNING, fence=F("fence") + 1, lease_until=_lease()
    )
    return Backtest.objects.get(pk=backtest_id) if taken else None


def _lease() -> Any:
    return Now() + timedelta(seconds=LEASE_SECONDS)


def _claimed(backtest: Backtest) -> Q:
    """Select the row while this worker's claim is the latest."""
    return Q(pk=backtest.pk, fence=backtest.fence, status=Backtest.Status.RUNNING)


def _step(backtest: Backtest) -> bool:
    """Process and save one batch; return False if it was the last or the claim is lost."""
    if not backtest.report:
        _begin(backtest)
    report = backtest.report
    room = min(BATCH, MAX_REVIEWS - backtest.looked)
    rules = ReviewRules.model_validate({"rules": backtest.rules, "version": _version(backtest)})
    seen = 0
    for each in past_reviews.batch(backtest, cursor=backtest.cursor, limit=room):
        _add(report, each, rules)
        backtest.cursor = each.past.record
        seen += 1
    backtest.looked += seen
    if seen < room or backtest.looked >= MAX_REVIEWS:
        _finish(backtest)
        return False
    return bool(
        Backtest.objects.filter(_claimed(backtest)).update(
            report=report,
            cursor=backtest.cursor,
            looked=backtest.looked,
            newest=backtest.newest,
            total=backtest.total,
            lease_until=_lease(),
        )
    )


def _version(backtest: Backtest) -> int:
    """Return the version number that the rules would be published under."""
    return backtest.base_version + 1


def _begin(backtest: Backtest) -> None:
    backtest.newest = past_reviews.newest_record()
    backtest.total = past_reviews.count(backtest, most=MAX_REVIEWS + 1)
    backtest.report = totals.empty()


def _add(report: totals.Totals, each: past_reviews.ReviewCase, rules: ReviewRules) -> None:
    if each.unknown:
        totals.add_unknown(report, each.past, each.unknown)
        return
    verdict = evaluate_rules(each.task, each.phase, rules, each.document, run=each.run)
    totals.add(report, each.past, verdict)


def _finish(backtest: Backtest) -> None:
    """Save the final report with its digest; the row does not change after that."""
    report = {
        **backtest.report,
        "workflow": backtest.workflow_id,
        "rules": backtest.rules,
        "base_version": backtest.base_version,
        "since": backtest.since.isoformat() if backtest.since else None,
        "until": backtest.until.isoformat() if backtest.until else None,
        "newest_record": backtest.newest,
        "oldest_record": backtest.cursor or None,
        "is_cut": backtest.total > MAX_REVIEWS,
        "spared_already": _already_skipped(backtest),
    }
    Backtest.objects.filter(_claimed(backtest)).update(
        report=report,
        digest=digest(report),
        status=Backtest.Status.DONE,
        cursor=backtest.cursor,
        looked=backtest.looked,
        newest=backtest.newest,
        total=min(backtest.total, MAX_REVIEWS),
        finished_at=Now(),
        lease_until=None,
    )


def _already_skipped(backtest: Backtest) -> int:
    """Count reviews of the period that active rules skipped: they have no decision to compare."""
    rows = ExecutionEvent.objects.filter(
        kind="review_spared", execution__workflow=backtest.workflow_id
    )
    if backtest.since:
        rows = rows.filter(created_at__gte=backtest.since)
    if backtest.until:
        rows = rows.filter(created_at__lt=backtest.until)
    return rows.count()
