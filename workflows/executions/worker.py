"""The RQ worker and worker pool that run the jobs of executions.

PostgreSQL records which worker runs what, and which work was lost (lease and sweeper).  RQ's own
bookkeeping in Redis costs eight round trips per job, a third of the time of a short job, so the
worker skips it for these jobs.
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
from workflows.common.forked_process import ForkedProcess
from workflows.common.parent_death import end_with
from workflows.metrics.process_liveness import report_count
from workflows.tools.catalogue_sync import listen
from workflows.tools.mcp_client import close_pool

from . import dispatch
from .code_execution import clear_sandbox

#: Seconds between two exchanges of status with Redis: suspension, heartbeat, number of jobs.
STATUS_INTERVAL = 1.0
#: Seconds between two reports of a pool's number of workers.  Counting workers takes RQ 0.1 s
#: each, so config.observability.metrics adds up the reports of the last 30 s instead.
REPORT_INTERVAL = 5.0
WORKERS = "workers"


class DispatchedJob(Job):
    """A job that is built from its id, without reading Redis, if `dispatch` enqueued it."""

    @classmethod
    def fetch(cls, id: str, connection: Redis | None = None, serializer: Any = None) -> Job:
        call = dispatch.parse_job_id(id)
        if call is None:
            return super().fetch(id, connection=connection, serializer=serializer)
        function, subject_ids = call
        return cls.create(
            function,
            subject_ids,
            id=id,
            connection=connection,
            serializer=serializer,
            description=dispatch.describe(function, subject_ids),
            timeout=-1,
            result_ttl=0,
            failure_ttl=dispatch.JOB_TTL_SECONDS,
        )


class EngineWorker(SimpleWorker):
    """Runs jobs in its own process, which keeps cached plans and MCP sessions between jobs."""

    _last_heartbeat = _last_suspension_check = float("-inf")
    _unreported_jobs = 0

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Run jobs of `dispatch` without RQ's bookkeeping, and other jobs as RQ does."""
        if dispatch.parse_job_id(job.id) is None:
            super().execute_job(job, queue)
        else:
            self._run_dispatched(job, queue)
        for connection in connections.all(initialized_only=True):
            connection.close_if_unusable_or_obsolete()

    def _run_dispatched(self, job: Job, queue: Queue) -> None:
        # In this state, a stop signal waits for the end of the job.
        self._state = WorkerStatus.BUSY
        job.started_at = now()
        context = dispatch.log_context(job.id)
        with bound_contextvars(**context), tracing.span(str(job.func_name), context):
            try:
                import_string(str(job.func_name))(*job.args)
            except Exception as error:
                tracing.report(error)
                self._record_failure(job, queue)
            else:
                self.connection.delete(job.key)
                self._unreported_jobs += 1
        self._state = WorkerStatus.IDLE
        self._report_status()

    def _record_failure(self, job: Job, queue: Queue) -> None:
        """Add the job to RQ's registry of failed jobs, with the traceback."""
        job.ended_at, job.origin = now(), queue.name
        text = traceback.format_exc()
        self.handle_exception(job, *sys.exc_info())
        self.handle_job_failure(job, queue, exc_string=text)

    def _report_status(self) -> None:
        """Send a heartbeat and the number of finished jobs, once per STATUS_INTERVAL."""
        if time.monotonic() - self._last_heartbeat > STATUS_INTERVAL:
            self._send_heartbeat()

    def heartbeat(self, timeout: int | None = None, pipeline: Pipeline | None = None) -> None:
        """Send a heartbeat if the last one is about to expire; RQ sends two for each job.

        A worker that waits for a job wakes before that time; a busy worker sends one each second.
        """
        if pipeline is not None:
            super().heartbeat(timeout, pipeline=pipeline)
        elif time.monotonic() - self._last_heartbeat > self.worker_ttl - 20:
            self._send_heartbeat()

    def _send_heartbeat(self) -> None:
        self._last_heartbeat = time.monotonic()
        if self._unreported_jobs:
            self.connection.hincrby(self.key, "successful_job_count", self._unreported_jobs)
            self._unreported_jobs = 0
        super().heartbeat()

    def set_state(self, state: str, pipeline: Pipeline | None = None) -> None:
        """Write the state to Redis only if it changed; RQ writes "idle" twice between two jobs."""
        previous, self._state = self._state, cast("WorkerStatus", state)
        if pipeline is not None or state != previous:
            super().set_state(state, pipeline=pipeline)

    def check_for_suspension(self, burst: bool) -> None:  # noqa: FBT001 - RQ's
        """Check for `rq suspend` once per STATUS_INTERVAL, not before each job."""
        if burst or time.monotonic() - self._last_suspension_check > STATUS_INTERVAL:
            self._last_suspension_check = time.monotonic()
            super().check_for_suspension(burst)

    def work(self, *args: Any, **options: Any) -> bool:
        pool = multiprocessing.parent_process()
        if pool is not None and pool.pid is not None:
            end_with(pool.pid)
        # Clean up after a killed worker that this one replaces.
        clear_sandbox()
        # RQ's scheduler is not used, and would be another process per worker.
        options["with_scheduler"] = False
        listen()
        try:
            return super().work(*args, **options)
        finally:
            close_pool()
            background_loop.shutdown()


class EnginePool(WorkerPool):
    """A pool that reports its number of workers and unregisters dead ones.

    It keeps a process `beside` the workers, if there is one, and stops it with them.
    """

    _last_report = float("-inf")

    def __init__(self, *args: Any, beside: ForkedProcess | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._beside = beside

    def start(self, *args: Any, **options: Any) -> None:
        with suppress(RedisError):
            self._unregister_orphans()
        try:
            super().start(*args, **options)
        finally:
            self._report(0)

    def check_workers(self, respawn: bool = True) -> None:  # noqa: FBT001, FBT002 - RQ's
        """Report the number of workers; RQ calls this every second."""
        super().check_workers(respawn)
        if self._beside is not None and self.status != self.Status.STOPPED:
            self._beside.keep_alive()
        if time.monotonic() - self._last_report > REPORT_INTERVAL:
            self._last_report = time.monotonic()
            self._report(self.number_of_active_workers)

    def all_workers_have_stopped(self) -> bool:
        """Return whether all have ended; RQ calls this every second once it shall stop."""
        if self._beside is not None and self._beside.is_alive():
            self._beside.ask_to_stop()
            return False
        return super().all_workers_have_stopped()

    def handle_dead_worker(self, worker_data: WorkerData) -> None:
        """Unregister a killed worker, which RQ would list for eight more minutes."""
        super().handle_dead_worker(worker_data)
        key = f"{self.worker_class.redis_worker_namespace_prefix}{worker_data.name}"
        with suppress(RedisError):
            self._unregister(self.worker_class.find_by_key(key, connection=self.connection))

    def _unregister_orphans(self) -> None:
        """Unregister dead workers of this machine whose pool was killed too."""
        for worker in self.worker_class.all(connection=self.connection):
            mine = worker.hostname == socket.gethostname()
            if mine and worker.pid is not None and not psutil.pid_exists(worker.pid):
                self._unregister(worker)

    def _unregister(self, worker: BaseWorker | None) -> None:
        if worker is not None:
            worker.register_death()  # type: ignore[no-untyped-call]

    def _report(self, number: int) -> None:
        with suppress(RedisError):
            report_count(WORKERS, f"{socket.gethostname()}:{os.getpid()}", number)
