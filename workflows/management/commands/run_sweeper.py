"""`manage.py run_sweeper`: recover lost work, synchronize the catalogue, send webhooks."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import Error, close_old_connections, connection
from django.utils.module_loading import import_string
from redis.exceptions import RedisError

from workflows import conf
from workflows.common import background_loop
from workflows.executions.recovery import Rests, failing, seconds_to_next, sweep
from workflows.metrics.process_liveness import heartbeat, report_failing
from workflows.realtime import work_hints
from workflows.tools.catalogue_sync import Follower
from workflows.webhooks.sender import Sender

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = (
        "Puts lost work back on the queue and expires holds, every few seconds; keeps the"
        " catalogue in step with the MCP servers; sends webhooks."
    )
    # Not the checks of URLs and of the admin, which would load every page.
    requires_system_checks = ("holdpoint",)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="one round, then stop")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["once"]:
            self.stdout.write(str(sweep()))
            return
        run()


def run() -> None:
    """Sweep until SIGTERM or SIGINT."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    work_hints.start()
    follower = Follower()
    follower.start()
    rests = Rests()
    threads = [*_start_sender(stop), *_start_threads(stop)]
    try:
        while not stop.is_set():
            stop.wait(_round(rests))
    finally:
        stop.set()
        work_hints.stop()
        follower.stop()
        for thread in threads:
            thread.join()
        background_loop.shutdown()


def _start_sender(stop: threading.Event) -> Iterator[threading.Thread]:
    """Start the webhook sender in a thread, unless it is disabled."""
    if conf.webhook_concurrency():
        thread = threading.Thread(target=Sender(stop).run, name="webhooks")
        thread.start()
        yield thread


def _start_threads(stop: threading.Event) -> Iterator[threading.Thread]:
    """Start the threads that other apps register in the setting `sweep_threads`."""
    for path in settings.HOLDPOINT.get("sweep_threads", ()):
        thread = threading.Thread(target=import_string(path), args=(stop,), name=path)
        thread.start()
        yield thread


def _round(rests: Rests | None = None) -> float:
    """Run one round and return the seconds until the next.

    While the database or Redis is unavailable, the round is retried.
    """
    try:
        close_old_connections()
        sweep(rests)
        heartbeat("sweeper")
        report_failing("sweeper", failing())
        return seconds_to_next()
    except (Error, RedisError) as error:
        logger.warning("sweep failed, trying again: %s", error)
        connection.close()
        return conf.sweep_seconds()
