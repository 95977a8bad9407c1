"""`manage.py run_workers`: a pool of RQ SimpleWorkers that move executions on."""

from __future__ import annotations

import os
from typing import Any

import django_rq
from django.core.management.base import BaseCommand, CommandParser
from django.db import connections
from rq import Queue
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.worker import SimpleWorker
from rq.worker_pool import WorkerPool

from workflows import background, conf
from workflows.mcp.client import close_pool


class EngineWorker(SimpleWorker):
    """Runs jobs in its own process: no fork per job, so warm plans and MCP sessions are kept."""

    def work(self, *args: Any, **options: Any) -> bool:
        try:
            return super().work(*args, **options)
        finally:
            close_pool()
            background.shutdown()

    def perform_job(self, job: Job, queue: Queue) -> bool:
        done = super().perform_job(job, queue)
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
        WorkerPool(
            # In this order: the tool graph learns when no execution waits.
            ["default", "low"],
            connection=django_rq.get_connection("default"),
            num_workers=options["workers"] or conf.workers(),
            worker_class=EngineWorker,
            serializer=JSONSerializer,
        ).start(logging_level=os.environ.get("HOLDPOINT_RQ_LOG_LEVEL", "WARNING"))
