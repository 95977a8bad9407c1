"""Enqueue RQ jobs for executions.

A lost job costs time and no data: the sweeper enqueues it again from what PostgreSQL holds.  The
id of a job names the function and the execution, so an EngineWorker starts without reading the
job from Redis; any other RQ worker finds an ordinary job.
"""

from __future__ import annotations

import json
import logging
import re
import zlib
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Final
from uuid import uuid4

import django_rq
from django.db import transaction
from redis.commands.core import Script
from redis.exceptions import RedisError
from rq import Queue
from rq.job import Job, JobStatus
from rq.utils import now, utcformat
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
#: Function, executions, a random part, and the id of the HTTP request that enqueued the job, if
#: any.  RQ allows letters, digits, `_` and `-` only; the non-greedy match leaves hyphens to the
#: request.
_ID = re.compile(r"([A-Za-z0-9_-]+?)-([0-9]+(?:_[0-9]+)*)-[0-9a-f]{32}(?:--([A-Za-z0-9_-]{8,64}))?")


# Keyed by the queue; bounded by 8; never stale: the connection pool reconnects by itself.
@lru_cache(maxsize=8)
def _queue(name: str) -> Queue:
    """Return the queue; a new RQ queue connects and asks Redis for its version each time."""
    return django_rq.get_queue(name)


# Keyed by function and queue; bounded by 8; never stale: RQ and settings change with a restart.
@lru_cache(maxsize=8)
def _fields(job: str, queue: str) -> tuple[Any, ...]:
    """Return the fields that all jobs of a function share, as RQ stores them: name, value, …"""
    template = _queue(queue).create_job(job, timeout=-1, result_ttl=0, failure_ttl=JOB_TTL_SECONDS)
    template.origin = queue
    fields = {**template.to_dict(), "status": JobStatus.QUEUED.value}
    individual = {"data", "description", "created_at", "enqueued_at"}
    return tuple(chain.from_iterable((k, v) for k, v in fields.items() if k not in individual))


def job_id(job: str, *execution_ids: int) -> str:
    """Return a unique job id, which includes the id of the present HTTP request if there is one."""
    request = str(get_contextvars().get("request_id", ""))
    numbers = "_".join(map(str, execution_ids))
    plain = f"{job.replace('.', '-')}-{numbers}-{uuid4().hex}"
    traced = f"{plain}--{request}"
    return traced if _ID.fullmatch(traced) else plain


def parse_job_id(job_id: str) -> tuple[str, tuple[int, ...]] | None:
    """Parse an id of `job_id` into (dotted name, execution ids); None for any other id."""
    match = _ID.fullmatch(job_id)
    if match is None:
        return None
    return match[1].replace("-", "."), tuple(map(int, match[2].split("_")))


def log_context(job_id: str) -> dict[str, str]:
    """Return the log context of a job: execution and request."""
    match = _ID.fullmatch(job_id)
    if match is None:
        return {}
    # Jobs of other apps have an id of something else, such as a backtest.
    subject = "execution_id" if match[1].startswith("workflows-") else "subject_id"
    context = {subject: match[2].replace("_", ", ")}
    return {**context, "request_id": match[3]} if match[3] else context


def enqueue_advance_on_commit(execution_id: int) -> None:
    """Enqueue a job that advances the execution, when the present transaction commits."""
    transaction.on_commit(partial(enqueue, ADVANCE, execution_id))


def enqueue_speculation_on_commit(execution_id: int) -> None:
    """Enqueue a low-priority job that speculates, when the present transaction commits."""
    transaction.on_commit(partial(enqueue, SPECULATE, execution_id, queue=SPECULATION))


def enqueue(job: str, *execution_ids: int, queue: str = "default") -> bool:
    """Enqueue a job now; returns False if Redis is unavailable (the sweeper tries again)."""
    crashpoint("enqueue.before")
    try:
        _push(job, execution_ids, queue)
    except RedisError as error:
        logger.warning("could not enqueue %s: %s", describe(job, execution_ids), error)
        return False
    crashpoint("enqueue.after")
    return True


def describe(job: str, execution_ids: tuple[int, ...]) -> str:
    """Return the call of a job as people read it."""
    return f"{job}({', '.join(map(str, execution_ids))})"


def _push(job: str, execution_ids: tuple[int, ...], queue: str) -> None:
    """Enqueue with one Redis command; RQ's own `enqueue` takes longer than the job's delivery."""
    moment, name = utcformat(now()), job_id(job, *execution_ids)
    call = zlib.compress(json.dumps([job, None, execution_ids, {}]).encode())
    _script()(
        keys=(_queue(queue).key, Job.key_for(name), Queue.redis_queues_keys),
        args=(
            *(name, JOB_TTL_SECONDS, "data", call, "description", describe(job, execution_ids)),
            *("created_at", moment, "enqueued_at", moment),
            *_fields(job, queue),
        ),
    )


#: KEYS: the queue, the job, the list of queues.  ARGV: the job's id, its time to live, its fields.
_PUSH = """
redis.call('HSET', KEYS[2], unpack(ARGV, 3))
redis.call('EXPIRE', KEYS[2], ARGV[2])
redis.call('SADD', KEYS[3], KEYS[1])
return redis.call('RPUSH', KEYS[1], ARGV[1])
"""


# One per process; redis-py loads the script again when Redis has lost it.
@lru_cache(maxsize=1)
def _script() -> Script:
    return _queue("default").connection.register_script(_PUSH)


def queue_length(queue: str) -> int:
    """Return the number of jobs in a queue; raises RedisError if Redis is unavailable."""
    return int(_queue(queue).count)
