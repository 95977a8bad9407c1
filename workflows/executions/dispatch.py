"""Sending for a worker.  Redis carries hints: losing one costs time, never truth.

A hint is an RQ job like any other, except that its id says what it calls: a worker of ours begins
without asking Redis for more, and any other RQ worker finds the job as it is used to.
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

#: Queues in the order in which workers take from them: what somebody waits for, what somebody may
#: be glad of, what can wait.
DEFAULT, SPECULATION, LOW = "default", "ahead", "low"
QUEUES = (DEFAULT, SPECULATION, LOW)

#: Seconds after which Redis forgets a job that nobody finished; the sweeper sends another.
KEPT_SECONDS: Final = 86_400
#: Job, execution, something unique, and the request that sent it if one did.
#: RQ allows letters, digits, `_` and `-`; the shortest match is ours, whatever a request id holds.
_ID = re.compile(r"([A-Za-z0-9_-]+?)-([0-9]+)-[0-9a-f]{32}(?:--([A-Za-z0-9_-]{8,64}))?")


@lru_cache(maxsize=8)
def _queue(name: str) -> Queue:
    """One per process: a new one would connect and ask the server for its version each time."""
    return django_rq.get_queue(name)


@lru_cache(maxsize=8)
def _fields(job: str, queue: str) -> tuple[Any, ...]:
    """What every such job has in Redis, as RQ itself writes it: name, value, name, value, ..."""
    made = _queue(queue).create_job(job, timeout=-1, result_ttl=0, failure_ttl=KEPT_SECONDS)
    made.origin = queue
    known = {**made.to_dict(), "status": JobStatus.QUEUED.value}
    own = {"data", "description", "created_at", "enqueued_at"}
    return tuple(chain.from_iterable((k, v) for k, v in known.items() if k not in own))


def job_id(job: str, execution_id: int) -> str:
    """An id of its own for this call of `job`; it carries the id of the request that sends it."""
    request = str(get_contextvars().get("request_id", ""))
    made = f"{job.replace('.', '-')}-{execution_id}-{uuid4().hex}"
    traced = f"{made}--{request}"
    return traced if _ID.fullmatch(traced) else made


def call_of(job_id: str) -> tuple[str, int] | None:
    """What `job_id` made the id of, as (dotted name, execution id); None for other jobs' ids."""
    found = _ID.fullmatch(job_id)
    return (found[1].replace("-", "."), int(found[2])) if found else None


def context_of(job_id: str) -> dict[str, str]:
    """What a worker's log lines name while it does this job: execution and request."""
    found = _ID.fullmatch(job_id)
    if found is None:
        return {}
    # The executions app's own jobs are all about an execution; jobs of others about what they name.
    about = "execution_id" if found[1].startswith("workflows-") else "subject_id"
    context = {about: found[2]}
    return {**context, "request_id": found[3]} if found[3] else context


def enqueue_advance_on_commit(execution_id: int) -> None:
    """Have a worker look at the execution, once the present transaction is committed."""
    transaction.on_commit(partial(enqueue, ADVANCE, execution_id))


def enqueue_speculation_on_commit(execution_id: int) -> None:
    """Have a worker with nothing better to do work ahead, once the transaction is committed."""
    transaction.on_commit(partial(enqueue, SPECULATE, execution_id, queue=SPECULATION))


def enqueue(job: str, execution_id: int, *, queue: str = "default") -> bool:
    """Put a job on the queue now; False when Redis is away (the sweeper sends again)."""
    crashpoint("enqueue.before")
    try:
        _push(job, execution_id, queue)
    except RedisError as error:
        logger.warning("could not send for execution %s: %s", execution_id, error)
        return False
    crashpoint("enqueue.after")
    return True


def _push(job: str, execution_id: int, queue: str) -> None:
    """One command; RQ's own way of making a job takes longer than the job's way to a worker."""
    moment, name = utcformat(now()), job_id(job, execution_id)
    call = zlib.compress(json.dumps([job, None, [execution_id], {}]).encode())
    _script()(
        keys=(_queue(queue).key, Job.key_for(name), Queue.redis_queues_keys),
        args=(
            *(name, KEPT_SECONDS, "data", call, "description", f"{job}({execution_id})"),
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


@lru_cache(maxsize=1)
def _script() -> Script:
    return _queue("default").connection.register_script(_PUSH)


def queue_length(queue: str) -> int:
    """How many jobs wait on a queue; raises RedisError when Redis is away."""
    return int(_queue(queue).count)
