"""The RQ worker that moves executions on: a SimpleWorker without RQ's notes on what it is at.

Who works on what, and what was lost, is known to PostgreSQL (lease and sweeper).  RQ would write
it into Redis as well, eight round trips per job; at the length of our jobs that is a third.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
import time
import traceback
from contextlib import suppress
from typing import Any, cast

import psutil
from django.db import connections
from django.utils.module_loading import import_string
from redis import Redis
from redis.client import Pipeline
from redis.exceptions import RedisError
from rq import Queue
from rq.job import Job
from rq.utils import now
from rq.worker import BaseWorker, SimpleWorker, WorkerStatus
from rq.worker_pool import WorkerData, WorkerPool
from structlog.contextvars import bound_contextvars

from workflows.common import background_loop, tracing
from workflows.common.parent_death import end_with
from workflows.metrics.process_liveness import report_count
from workflows.tools.catalogue_sync import listen
from workflows.tools.mcp_client import close_pool

from . import dispatch
from .code_execution import clear_sandbox

#: Seconds between two looks at Redis for what only people ask: are workers suspended, what is
#: this one at, how many jobs has it done.
NOTED_EVERY = 1.0
#: Seconds between two reports of a pool about how many workers it has.  Counting many workers
#: takes RQ 0.1 s each, so config.observability.metrics adds up the reports of the last 30 s.
REPORTED_EVERY = 5.0
WORKERS = "workers"


class Hint(Job):
    """A job whose id says what it calls, if `dispatch` sent it; any other job otherwise."""

    @classmethod
    def fetch(cls, id: str, connection: Redis | None = None, serializer: Any = None) -> Job:
        call = dispatch.call_of(id)
        if call is None:
            return super().fetch(id, connection=connection, serializer=serializer)
        function, subject_id = call
        return cls.create(
            function,
            (subject_id,),
            id=id,
            connection=connection,
            serializer=serializer,
            description=f"{function}({subject_id})",
            timeout=-1,
            result_ttl=0,
            failure_ttl=dispatch.KEPT_SECONDS,
        )


class EngineWorker(SimpleWorker):
    """Runs jobs in its own process: no fork per job, so warm plans and MCP sessions are kept."""

    _beaten = _looked = float("-inf")
    _done = 0

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Run a hint straight away, and anything else as RQ does."""
        if dispatch.call_of(job.id) is None:
            super().execute_job(job, queue)
        else:
            self._follow(job, queue)
        for connection in connections.all(initialized_only=True):
            connection.close_if_unusable_or_obsolete()

    def _follow(self, job: Job, queue: Queue) -> None:
        # A signal to stop now waits for the job's end.
        self._state = WorkerStatus.BUSY
        job.started_at = now()
        context = dispatch.context_of(job.id)
        with bound_contextvars(**context), tracing.span(str(job.func_name), context):
            try:
                import_string(str(job.func_name))(*job.args)
            except Exception as error:
                tracing.report(error)
                self._failed(job, queue)
            else:
                self.connection.delete(job.key)
                self._done += 1
        self._state = WorkerStatus.IDLE
        self._note()

    def _failed(self, job: Job, queue: Queue) -> None:
        """As RQ does it: the job is kept among the failed ones with what went wrong."""
        job.ended_at, job.origin = now(), queue.name
        text = traceback.format_exc()
        self.handle_exception(job, *sys.exc_info())
        self.handle_job_failure(job, queue, exc_string=text)

    def _note(self) -> None:
        """Tell Redis now and then that this worker is alive, and how many jobs it did."""
        if time.monotonic() - self._beaten > NOTED_EVERY:
            self._beat()

    def heartbeat(self, timeout: int | None = None, pipeline: Pipeline | None = None) -> None:
        """A sign of life when the last one is about to lapse; RQ sends two for each job.

        The wait for a job ends before that, and a worker at work sends one each second.
        """
        if pipeline is not None:
            super().heartbeat(timeout, pipeline=pipeline)
        elif time.monotonic() - self._beaten > self.worker_ttl - 20:
            self._beat()

    def _beat(self) -> None:
        self._beaten = time.monotonic()
        if self._done:
            self.connection.hincrby(self.key, "successful_job_count", self._done)
            self._done = 0
        super().heartbeat()

    def set_state(self, state: str, pipeline: Pipeline | None = None) -> None:
        """Known to this process at once, which is what its signals look at; to Redis if it lasts.

        Between two jobs RQ would write "idle" twice.
        """
        known, self._state = self._state, cast("WorkerStatus", state)
        if pipeline is not None or state != known:
            super().set_state(state, pipeline=pipeline)

    def check_for_suspension(self, burst: bool) -> None:  # noqa: FBT001 - RQ's
        """`rq suspend` is looked for once a second, not before each job."""
        if burst or time.monotonic() - self._looked > NOTED_EVERY:
            self._looked = time.monotonic()
            super().check_for_suspension(burst)

    def work(self, *args: Any, **options: Any) -> bool:
        pool = multiprocessing.parent_process()
        if pool is not None and pool.pid is not None:
            end_with(pool.pid)
        # What a killed worker has left is ended by the one that takes its place.
        clear_sandbox()
        # Nothing is scheduled through RQ, whose scheduler would be one more process per worker.
        options["with_scheduler"] = False
        listen()
        try:
            return super().work(*args, **options)
        finally:
            close_pool()
            background_loop.shutdown()


class EnginePool(WorkerPool):
    """A pool that says how many workers it has, and strikes dead ones off RQ's list."""

    _reported = float("-inf")

    def start(self, *args: Any, **options: Any) -> None:
        with suppress(RedisError):
            self._strike_off_earlier()
        try:
            super().start(*args, **options)
        finally:
            self._report(0)

    def check_workers(self, respawn: bool = True) -> None:  # noqa: FBT001, FBT002 - RQ's
        """Called by RQ every second."""
        super().check_workers(respawn)
        if time.monotonic() - self._reported > REPORTED_EVERY:
            self._reported = time.monotonic()
            self._report(self.number_of_active_workers)

    def handle_dead_worker(self, worker_data: WorkerData) -> None:
        """RQ itself would go on listing a killed worker for eight minutes."""
        super().handle_dead_worker(worker_data)
        key = f"{self.worker_class.redis_worker_namespace_prefix}{worker_data.name}"
        with suppress(RedisError):
            self._strike_off(self.worker_class.find_by_key(key, connection=self.connection))

    def _strike_off_earlier(self) -> None:
        """Workers of this machine whose pool was killed with them."""
        for worker in self.worker_class.all(connection=self.connection):
            mine = worker.hostname == socket.gethostname()
            if mine and worker.pid is not None and not psutil.pid_exists(worker.pid):
                self._strike_off(worker)

    def _strike_off(self, worker: BaseWorker | None) -> None:
        if worker is not None:
            worker.register_death()  # type: ignore[no-untyped-call]

    def _report(self, number: int) -> None:
        with suppress(RedisError):
            report_count(WORKERS, f"{socket.gethostname()}:{os.getpid()}", number)
