"""Working a backtest off, a few hundred records at a time, on the queue for what can wait.

A step is put down with one guarded UPDATE: whoever lost the claim meanwhile changes nothing, and
whoever goes on after a crash begins where the last step ended.
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
from workflows.engine.bounded_json import digest
from workflows.engine.policy import ReviewRules
from workflows.engine.review_rules import evaluate_rules
from workflows.executions import dispatch
from workflows.models import ExecutionEvent

from . import past_reviews, totals

logger = logging.getLogger(__name__)

JOB: Final = "reviews.backtests.jobs.work"
#: Reviews that one backtest looks at, the newest ones; a report says when there are more.
MOST: Final = 50_000
BATCH: Final = 200
#: Seconds after which others get a turn, and after which a claim counts as lost.
SLICE_SECONDS: Final = 2.0
LEASE_SECONDS: Final = 60
_UNFINISHED = (Backtest.Status.QUEUED, Backtest.Status.RUNNING)


def send(backtest_id: int) -> None:
    """Have a worker take it up, once the present transaction is committed."""
    transaction.on_commit(partial(dispatch.enqueue, JOB, backtest_id, queue=dispatch.LOW))


def resend() -> int:
    """Send again for what no worker is at, when the queue is empty; how many."""
    free = Backtest.objects.filter(_free()).order_by("pk")
    found = list(free.values_list("pk", flat=True)[:20])
    if not found or dispatch.queue_length(dispatch.LOW):
        return 0
    for pk in found:
        dispatch.enqueue(JOB, pk, queue=dispatch.LOW)
    return len(found)


def work(backtest_id: int) -> None:
    """The job: some steps, then back to the end of the queue."""
    if advance(backtest_id, seconds=SLICE_SECONDS):
        dispatch.enqueue(JOB, backtest_id, queue=dispatch.LOW)


def advance(backtest_id: int, *, seconds: float = float("inf")) -> bool:
    """Move a backtest on for so long; True when there is more to do.

    Does nothing when another worker is at it, or it is over.
    """
    backtest = _claim(backtest_id)
    if backtest is None:
        return False
    end = time.monotonic() + seconds
    try:
        while _step(backtest):
            if time.monotonic() > end:
                return bool(Backtest.objects.filter(_mine(backtest)).update(lease_until=None))
    except (OperationalError, InterfaceError):
        # The database's trouble is not the backtest's: the sweeper sends again.
        raise
    except Exception as error:
        logger.exception("backtest %s could not be worked out", backtest_id)
        Backtest.objects.filter(_mine(backtest)).update(
            status=Backtest.Status.FAILED,
            error=f"{type(error).__name__}: {error}"[:500],
            finished_at=Now(),
            lease_until=None,
        )
    return False


def _free() -> Q:
    lapsed = Q(lease_until__isnull=True) | Q(lease_until__lt=Now())
    return lapsed & Q(status__in=_UNFINISHED)


def _claim(backtest_id: int) -> Backtest | None:
    taken = Backtest.objects.filter(_free(), pk=backtest_id).update(
        status=Backtest.Status.RUNNING, fence=F("fence") + 1, lease_until=_lease()
    )
    return Backtest.objects.get(pk=backtest_id) if taken else None


def _lease() -> Any:
    return Now() + timedelta(seconds=LEASE_SECONDS)


def _mine(backtest: Backtest) -> Q:
    """The row, as long as this claim is the last one."""
    return Q(pk=backtest.pk, fence=backtest.fence, status=Backtest.Status.RUNNING)


def _step(backtest: Backtest) -> bool:
    """One batch, put down; False when there is no more, or somebody else has it now."""
    if not backtest.report:
        _begin(backtest)
    sums = backtest.report
    room = min(BATCH, MOST - backtest.looked)
    rules = ReviewRules.model_validate({"rules": backtest.rules, "version": _version(backtest)})
    seen = 0
    for each in past_reviews.batch(backtest, cursor=backtest.cursor, limit=room):
        _add(sums, each, rules)
        backtest.cursor = each.past.record
        seen += 1
    backtest.looked += seen
    if seen < room or backtest.looked >= MOST:
        _finish(backtest)
        return False
    return bool(
        Backtest.objects.filter(_mine(backtest)).update(
            report=sums,
            cursor=backtest.cursor,
            looked=backtest.looked,
            newest=backtest.newest,
            total=backtest.total,
            lease_until=_lease(),
        )
    )


def _version(backtest: Backtest) -> int:
    """The number that the rules would be published under."""
    return backtest.base_version + 1


def _begin(backtest: Backtest) -> None:
    backtest.newest = past_reviews.newest_record()
    backtest.total = past_reviews.count(backtest, most=MOST + 1)
    backtest.report = totals.empty()


def _add(sums: totals.Sums, each: past_reviews.Reviewed, rules: ReviewRules) -> None:
    if each.unknown:
        totals.add_unknown(sums, each.past, each.unknown)
        return
    verdict = evaluate_rules(each.task, each.phase, rules, each.document, run=each.run)
    totals.add(sums, each.past, verdict)


def _finish(backtest: Backtest) -> None:
    """Put the whole report down, with its digest; from here on the row never changes."""
    report = {
        **backtest.report,
        "workflow": backtest.workflow_id,
        "rules": backtest.rules,
        "base_version": backtest.base_version,
        "since": backtest.since.isoformat() if backtest.since else None,
        "until": backtest.until.isoformat() if backtest.until else None,
        "newest_record": backtest.newest,
        "oldest_record": backtest.cursor or None,
        "is_cut": backtest.total > MOST,
        "spared_already": _spared_already(backtest),
    }
    Backtest.objects.filter(_mine(backtest)).update(
        report=report,
        digest=digest(report),
        status=Backtest.Status.DONE,
        cursor=backtest.cursor,
        looked=backtest.looked,
        newest=backtest.newest,
        total=min(backtest.total, MOST),
        finished_at=Now(),
        lease_until=None,
    )


def _spared_already(backtest: Backtest) -> int:
    """Reviews of the same days that rules had spared already: nobody knows how they were."""
    rows = ExecutionEvent.objects.filter(
        kind="review_spared", execution__workflow=backtest.workflow_id
    )
    if backtest.since:
        rows = rows.filter(created_at__gte=backtest.since)
    if backtest.until:
        rows = rows.filter(created_at__lt=backtest.until)
    return rows.count()
