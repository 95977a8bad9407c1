"""`manage.py run_sweeper`: the sweeper's own small process."""

from __future__ import annotations

import logging
import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import Error, close_old_connections, connection
from redis.exceptions import RedisError

from workflows import conf
from workflows.heartbeat import beat
from workflows.recovery import sweep

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Puts lost work back on the queue and expires holds, every few seconds."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="one round, then stop")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["once"]:
            self.stdout.write(str(sweep()))
            return
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        while not stop.is_set():
            _round()
            stop.wait(conf.sweep_seconds())


def _round() -> None:
    """One round; a database or a Redis that is away is waited for."""
    try:
        close_old_connections()
        sweep()
        beat("sweeper")
    except (Error, RedisError) as error:
        logger.warning("sweep failed, trying again: %s", error)
        connection.close()
