"""`manage.py send_webhooks`: send webhooks from a process other than the sweeper."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from workflows import conf
from workflows.webhooks.sender import Sender


class Command(BaseCommand):
    help = "Sends webhooks. The sweeper does so too, unless HOLDPOINT_WEBHOOK_CONCURRENCY=0."

    def handle(self, *args: Any, **options: Any) -> None:
        if not conf.webhook_concurrency():
            raise CommandError("HOLDPOINT_WEBHOOK_CONCURRENCY is 0: nothing would be sent.")
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        Sender(stop).run()
