"""`manage.py run_workers`: a pool of RQ workers that run executions."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import django_rq
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, connections
from rq.serializers import JSONSerializer

from workflows import conf
from workflows.common import gc_freeze
from workflows.common.forked_process import ForkedProcess
from workflows.executions.code_execution import clear_sandbox
from workflows.executions.dispatch import QUEUES
from workflows.executions.worker import DispatchedJob, EnginePool, EngineWorker
from workflows.tools import registry

from . import run_sweeper

#: Modules of the first jobs; each takes memory in every worker that loads it after the fork.
SHARED_MODULES = (
    "workflows.tools.mcp_client.session_pool",
    "workflows.executions.jobs",
    "channels_redis.pubsub",
    "channels_redis.utils",
    "msgpack",
    # Not the modules of an installation: they may start threads, which do not survive a fork.
    *registry.BUILTIN_MODULES,
)


class Command(BaseCommand):
    help = "Starts the worker processes and restarts those that exit."
    # Not the checks of URLs and of the admin, which would load every page.
    requires_system_checks = ("holdpoint",)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--workers", type=int, default=None, help="how many processes")
        parser.add_argument(
            "--sweeper-output",
            type=int,
            metavar="FD",
            help="fork the sweeper too, which shares memory with the workers and writes to FD",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if connection.settings_dict["OPTIONS"].get("pool"):
            raise CommandError(
                "Workers fork, and a pool of database sessions does not outlive that:"
                " run them with HOLDPOINT_ROLE=worker."
            )
        # Load shared modules once, before the workers fork.
        for name in SHARED_MODULES:
            import_module(name)
        sweeper = None
        if options["sweeper_output"] is not None:
            run_sweeper.preload()
            sweeper = ForkedProcess("sweeper", run_sweeper.run, options["sweeper_output"])
        # Forked workers must not inherit a connection: two processes would share one session.
        connections.close_all()
        clear_sandbox()
        gc_freeze.freeze_loaded_objects()
        EnginePool(
            # In order of priority: speculation and learning wait while any execution waits.
            list(QUEUES),
            connection=django_rq.get_connection("default"),
            num_workers=options["workers"] or conf.workers(),
            worker_class=EngineWorker,
            job_class=DispatchedJob,
            serializer=JSONSerializer,
            beside=sweeper,
        ).start(logging_level="WARNING")
