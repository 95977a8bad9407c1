"""`manage.py run_workers`: a pool of RQ workers that run executions."""

from __future__ import annotations

from typing import Any

import django_rq
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, connections
from rq.serializers import JSONSerializer

from workflows import conf
from workflows.executions.code_execution import clear_sandbox
from workflows.executions.dispatch import QUEUES
from workflows.executions.worker import EnginePool, EngineWorker, report_failure


class Command(BaseCommand):
    help = "Starts the worker processes and restarts those that exit."
    # Not the checks of URLs and of the admin, which would load every page.
    requires_system_checks = ("holdpoint",)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--workers", type=int, default=None, help="how many processes")

    def handle(self, *args: Any, **options: Any) -> None:
        if connection.settings_dict["OPTIONS"].get("pool"):
            raise CommandError(
                "Workers fork, and a pool of database sessions does not outlive that:"
                " run them with HOLDPOINT_ROLE=worker."
            )
        # Forked workers must not inherit a connection: two processes would share one session.
        connections.close_all()
        clear_sandbox()
        EnginePool(
            # In order of priority: speculation and learning wait while any execution waits.
            list(QUEUES),
            connection=django_rq.get_connection("default"),
            num_workers=options["workers"] or conf.workers(),
            worker_class=EngineWorker,
            serializer=JSONSerializer,
            exception_handlers=[report_failure],
        ).start(logging_level="WARNING")
