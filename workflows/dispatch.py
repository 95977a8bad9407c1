"""Sending for a worker.  Redis carries hints: losing one costs time, never truth."""

from __future__ import annotations

import logging
from functools import lru_cache, partial

import django_rq
from django.db import transaction
from redis.exceptions import RedisError
from rq import Queue

from .crashpoints import crashpoint

logger = logging.getLogger(__name__)

ADVANCE = "workflows.jobs.advance"
LEARN = "workflows.jobs.learn"


@lru_cache(maxsize=8)
def _queue(name: str) -> Queue:
    """One per process: a new one would connect and ask the server for its version each time."""
    return django_rq.get_queue(name)


def send_worker(execution_id: int) -> None:
    """Have a worker look at the execution, once the present transaction is committed."""
    transaction.on_commit(partial(enqueue, ADVANCE, execution_id))


def enqueue(job: str, execution_id: int, *, queue: str = "default") -> bool:
    """Put a job on the queue now; False when Redis is away (the sweeper sends again)."""
    crashpoint("enqueue.before")
    try:
        waits = _queue(queue)
        # With a pipeline RQ makes one round trip of two.
        with waits.connection.pipeline() as pipeline:
            waits.enqueue_call(
                job,
                args=(execution_id,),
                timeout=-1,
                result_ttl=0,
                failure_ttl=86_400,
                pipeline=pipeline,
            )
            pipeline.execute()
    except RedisError as error:
        logger.warning("could not send for execution %s: %s", execution_id, error)
        return False
    crashpoint("enqueue.after")
    return True


def waiting(queue: str) -> int:
    """How many jobs wait on a queue; raises RedisError when Redis is away."""
    return int(_queue(queue).count)
