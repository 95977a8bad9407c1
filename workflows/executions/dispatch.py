"""Enqueue RQ jobs for executions.

A lost job costs time and no data: the sweeper enqueues it again from what PostgreSQL holds.
"""

from __future__ import annotations

import logging
from functools import lru_cache, partial
from typing import Final

import django_rq
from django.db import transaction
from redis.exceptions import RedisError
from rq import Queue
from structlog.contextvars import get_contextvars

from workflows.common.crashpoints import crashpoint

logger = logging.getLogger(__name__)

ADVANCE = "workflows.executions.jobs.advance"
LEARN = "workflows.executions.jobs.learn"
SPECULATE = "workflows.executions.jobs.speculate"

#: Queues by priority: executions that advance, speculation, background work.
DEFAULT, SPECULATION, LOW = "default", "ahead", "low"
QUEUES = (DEFAULT, SPECULATION, LOW)

#: Seconds after which Redis expires an unfinished job; the sweeper enqueues another.
JOB_TTL_SECONDS: Final = 86_400


# Keyed by the queue; bounded by 8; never stale: the connection pool reconnects by itself.
@lru_cache(maxsize=8)
def get_queue(name: str) -> Queue:
    """Return the queue; each new one of django-rq opens a connection to Redis."""
    return django_rq.get_queue(name)


def enqueue_advance_on_commit(execution_id: int) -> None:
    """Enqueue a job that advances the execution, when the present transaction commits."""
    transaction.on_commit(partial(enqueue, ADVANCE, execution_id))


def enqueue_speculation_on_commit(execution_id: int) -> None:
    """Enqueue a low-priority job that speculates, when the present transaction commits."""
    transaction.on_commit(partial(enqueue, SPECULATE, execution_id, queue=SPECULATION))


def enqueue(job: str, *subject_ids: int, queue: str = DEFAULT) -> bool:
    """Enqueue a job now; returns False if Redis is unavailable (the sweeper tries again).

    The job's `meta` holds the log context of its worker.
    """
    crashpoint("enqueue.before")
    try:
        get_queue(queue).enqueue(
            job,
            *subject_ids,
            job_timeout=-1,
            ttl=JOB_TTL_SECONDS,
            result_ttl=0,
            failure_ttl=JOB_TTL_SECONDS,
            meta={"log_context": _log_context(job, subject_ids)},
        )
    except RedisError as error:
        logger.warning("could not enqueue %s for %s: %s", job, subject_ids, error)
        return False
    crashpoint("enqueue.after")
    return True


def _log_context(job: str, subject_ids: tuple[int, ...]) -> dict[str, str]:
    """Return the executions of a job and the id of the HTTP request that enqueues it, if any."""
    # Jobs of other apps have an id of something else, such as a backtest.
    subject = "execution_id" if job.startswith("workflows.") else "subject_id"
    context = {subject: ", ".join(map(str, subject_ids))}
    request_id = get_contextvars().get("request_id")
    return {**context, "request_id": str(request_id)} if request_id else context


def queue_length(queue: str) -> int:
    """Return the number of jobs in a queue; raises RedisError if Redis is unavailable."""
    return int(get_queue(queue).count)
