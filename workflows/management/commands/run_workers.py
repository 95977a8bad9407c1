"""`manage.py run_workers`: a pool of RQ SimpleWorkers that move executions on."""

from __future__ import annotations

import os
import time
from typing import Any

import django_rq
from django.core.management.base import BaseCommand, CommandParser
from django.db import connections
from redis.client import Pipeline
from rq import Queue
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.worker import SimpleWorker
from rq.worker_pool import WorkerPool

from workflows import background, conf
from workflows.mcp.client import close_pool
from workflows.programs import clear_sandbox


class EngineWorker(SimpleWorker):
    """Runs jobs in its own process: no fork per job, so warm plans and MCP sessions are kept."""

    _beaten = float("-inf")

    def heartbeat(self, timeout: int | None = None, pipeline: Pipeline | None = None) -> None:
        """A sign of life when the last one is about to lapse; RQ sends two before each job.

        The wait for a job ends before that, and `perform_job` sends one behind each job.
        """
        if pipeline is not None:
            super().heartbeat(timeout, pipeline=pipeline)
        elif time.monotonic() - self._beaten > self.worker_ttl - 20:
            self._beat()

    def _beat(self) -> None:
        self._beaten = time.monotonic()
        super().heartbeat()

    def prepare_job_execution(
        self,
        job: Job,
        remove_from_intermediate_queue: bool = False,  # noqa: FBT001, FBT002 - RQ's
    ) -> None:
        """Leave out RQ's notes on what a worker is at, a round trip before each job.

        Who works on what is in PostgreSQL; what RQ needs to find lost jobs is written elsewhere.
        """
        if remove_from_intermediate_queue:
            super().prepare_job_execution(job, remove_from_intermediate_queue)

    def work(self, *args: Any, **options: Any) -> bool:
        try:
            return super().work(*args, **options)
        finally:
            close_pool()
            background.shutdown()

    def perform_job(self, job: Job, queue: Queue) -> bool:
        done = super().perform_job(job, queue)
        if time.monotonic() - self._beaten > 1:
            self._beat()
        for connection in connections.all(initialized_only=True):
            connection.close_if_unusable_or_obsolete()
        return done


class Command(BaseCommand):
    help = "Starts the worker processes and starts again those that die."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--workers", type=int, default=None, help="how many processes")

    def handle(self, *args: Any, **options: Any) -> None:
        # Forked workers must not inherit a connection: two processes would share one session.
        connections.close_all()
        clear_sandbox()
        WorkerPool(
            # In this order: the tool graph learns when no execution waits.
            ["default", "low"],
            connection=django_rq.get_connection("default"),
            num_workers=options["workers"] or conf.workers(),
            worker_class=EngineWorker,
            serializer=JSONSerializer,
        ).start(logging_level=os.environ.get("HOLDPOINT_RQ_LOG_LEVEL", "WARNING"))
