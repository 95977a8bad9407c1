"""The RQ worker and worker pool that run the jobs of executions.

PostgreSQL records which worker runs what, and which work was lost (lease and sweeper).
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
from contextlib import suppress
from types import TracebackType
from typing import Any

from django.db import close_old_connections
from redis.exceptions import RedisError
from rq import Queue
from rq.job import Job
from rq.worker import SimpleWorker
from rq.worker_pool import WorkerPool
from structlog.contextvars import bound_contextvars

from workflows.common import background_loop, tracing
from workflows.common.parent_death import end_with
from workflows.metrics.process_liveness import report_count
from workflows.tools.catalogue_sync import listen
from workflows.tools.mcp_client import close_pool

from .code_execution import clear_sandbox

#: Seconds between two reports of a pool's number of workers.  Counting workers takes RQ 0.1 s
#: each, so config.observability.metrics adds up the reports of the last 30 s instead.
REPORT_INTERVAL = 5.0
WORKERS = "workers"


def report_failure(
    job: Job, kind: type[BaseException], error: BaseException, traceback: TracebackType
) -> bool:
    """Report the error of a job, as an exception handler of RQ; True lets RQ's own handler run."""
    tracing.report(error)
    return True


class EngineWorker(SimpleWorker):
    """Runs jobs in its own process, which keeps cached plans and MCP sessions between jobs."""

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Run the job with its log context, see `dispatch.enqueue`."""
        context = job.meta.get("log_context", {})
        with bound_contextvars(**context), tracing.span(str(job.func_name), context):
            super().execute_job(job, queue)
        close_old_connections()

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
    """A pool that reports its number of workers."""

    _last_report = float("-inf")

    def start(self, *args: Any, **options: Any) -> None:
        try:
            super().start(*args, **options)
        finally:
            self._report(0)

    def check_workers(self, respawn: bool = True) -> None:  # noqa: FBT001, FBT002 - RQ's
        """Report the number of workers; RQ calls this every second."""
        super().check_workers(respawn)
        if time.monotonic() - self._last_report > REPORT_INTERVAL:
            self._last_report = time.monotonic()
            self._report(self.number_of_active_workers)

    def _report(self, number: int) -> None:
        with suppress(RedisError):
            report_count(WORKERS, f"{socket.gethostname()}:{os.getpid()}", number)
