"""`manage.py send_webhooks`: send webhooks from a process other than the sweeper."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from redis import RedisError

from workflows import conf
from workflows.common import background_loop
from workflows.metrics.process_liveness import report_count
from workflows.realtime import work_hints
from workflows.webhooks.sender import Sender

#: `config.observability.alive` allows a minute without a report.
REPORT_SECONDS = 10.0


class Command(BaseCommand):
    help = "Sends webhooks. The sweeper does so too, unless HOLDPOINT_WEBHOOK_CONCURRENCY=0."
    # Not the checks of URLs and of the admin, which would load every page.
    requires_system_checks = ("holdpoint",)

    _reported_at = float("-inf")

    def handle(self, *args: Any, **options: Any) -> None:
        if not conf.webhook_concurrency():
            raise CommandError("HOLDPOINT_WEBHOOK_CONCURRENCY is 0: nothing would be sent.")
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        work_hints.start()
        thread = threading.Thread(target=Sender(stop, report=self.report).run, name="webhooks")
        thread.start()
        stop.wait()
        work_hints.stop()
        thread.join()
        background_loop.shutdown()

    def report(self) -> None:
        """Report to Redis that this process has rounds; without Redis it sends all the same."""
        if time.monotonic() - self._reported_at < REPORT_SECONDS:
            return
        self._reported_at = time.monotonic()
        with suppress(RedisError):
            report_count("webhooks", f"{socket.gethostname()}:{os.getpid()}", 1)
