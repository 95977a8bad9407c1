"""The sender: one thread that reads and records, a few that post.

It runs in the sweeper's process or in one of its own (`manage.py send_webhooks`), in as many as
there are: an endpoint belongs to one sender at a time.  A slow receiver takes one of the posting
threads at most, once it has failed; nothing else in the product waits for it.
"""

from __future__ import annotations

import logging
import os
import queue
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from django.db import Error, close_old_connections, connection
from django.utils import timezone

from workflows import conf
from workflows.journal.event_log import ReadWatermark
from workflows.models import WebhookEndpoint

from . import attempts
from .attempts import Message, Outcome
from .claims import claim_endpoints, held_endpoints, next_messages, release_endpoints
from .fan_out import create_deliveries
from .outcomes import record

logger = logging.getLogger(__name__)

Post = Callable[[Message], Outcome]
_Lane = tuple[int, int]


class Sender:
    """Sends what waits, until `stop` is set.  `post` is replaced by tests."""

    def __init__(self, stop: threading.Event, *, post: Post | None = None) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"[-100:]
        self._stop = stop
        self._post = post or (lambda message: attempts.post(message, should_stop=stop.is_set))
        self._pool = ThreadPoolExecutor(conf.webhook_concurrency(), "webhook")
        self._finished: queue.SimpleQueue[tuple[Message, Outcome | None]] = queue.SimpleQueue()
        self._flying: dict[_Lane, Message] = {}
        self._watermark = ReadWatermark()
        self._claimed_at = self._held_until = float("-inf")
        self._ids: tuple[int, ...] = ()

    def run(self) -> None:
        """Until stopped.  A database that is away is waited for."""
        try:
            while not self._stop.is_set():
                try:
                    self.round()
                except Error as error:
                    logger.warning("webhooks wait for the database: %s", error)
                    self._rest()
                except Exception:
                    logger.exception("a round of webhooks failed, trying again")
                    self._rest()
        finally:
            self._end()

    def _rest(self) -> None:
        connection.close()
        self._stop.wait(1.0)

    def round(self) -> int:
        """Record what has ended, read what is new, start what is due; how many were started."""
        for message, outcome in self._ended():
            self._settle(message, outcome)
        started = sum(self._start(each) for each in self._due_endpoints())
        close_old_connections()
        return started

    # --- what has ended -------------------------------------------------------------------------

    def _ended(self) -> Iterable[tuple[Message, Outcome | None]]:
        """Everything that has ended, after a wait when there is nothing."""
        found = []
        try:
            found.append(self._finished.get(timeout=conf.webhook_poll_seconds()))
            while True:
                found.append(self._finished.get_nowait())
        except queue.Empty:
            return found

    def _settle(self, message: Message, outcome: Outcome | None) -> None:
        if outcome is not None:
            try:
                if not record(outcome, sender=self.name):
                    self._claimed_at = float("-inf")  # the claim is lost: look for it at once
            except Error:
                # It was sent: remember that until the database is back.
                self._finished.put((message, outcome))
                raise
        self._flying.pop((message.endpoint_id, message.lane), None)

    # --- what is due ----------------------------------------------------------------------------

    def _due_endpoints(self) -> list[tuple[WebhookEndpoint, int]]:
        """Endpoints with the number of tries they may start now, in turn."""
        endpoints = self._endpoints()
        if not endpoints:
            return []
        horizon = self._watermark.advance()
        for endpoint in endpoints:
            create_deliveries(endpoint, horizon=horizon, sender=self.name)
        flying = Counter(lane[0] for lane in self._flying)
        free = conf.webhook_concurrency() - len(self._flying)
        rooms = {each.pk: _room(each, flying[each.pk]) for each in endpoints}
        shares: Counter[int] = Counter()
        while free > 0 and any(rooms[pk] > shares[pk] for pk in rooms):
            for pk in rooms:
                if free > 0 and rooms[pk] > shares[pk]:
                    shares[pk] += 1
                    free -= 1
        return [(each, shares[each.pk]) for each in endpoints if shares[each.pk]]

    def _endpoints(self) -> list[WebhookEndpoint]:
        """Those this sender holds; claims are renewed long before they end."""
        now, lease = time.monotonic(), conf.webhook_lease_seconds()
        if now - self._claimed_at < min(2.0, lease / 5):
            return held_endpoints(self.name, self._ids)
        found = claim_endpoints(self.name)
        # Counted from before the claim was made: never longer than the database has it.
        self._claimed_at, self._held_until = now, now + lease
        self._ids = tuple(each.pk for each in found)
        return found

    def _start(self, due: tuple[WebhookEndpoint, int]) -> int:
        endpoint, room = due
        busy = [lane for pk, lane in self._flying if pk == endpoint.pk]
        messages = next_messages(endpoint, busy=busy, limit=room)
        for message in messages:
            self._flying[(message.endpoint_id, message.lane)] = message
            self._pool.submit(self._try, message, self._held_until)
        return len(messages)

    def _try(self, message: Message, held_until: float) -> None:
        """In a posting thread.  A try that could outlast the claim is not begun."""
        outcome = None
        try:
            if time.monotonic() + conf.webhook_timeout_seconds() < held_until:
                outcome = self._post(message)
            if outcome is not None and outcome.error and self._stop.is_set():
                outcome = None  # cut off by our own end: no failure of the receiver's
        except Exception:
            logger.exception("webhook %s was not sent", message.message_id)
            outcome = Outcome(message, None, "the message could not be sent; see the log", 0)
        finally:
            self._finished.put((message, outcome))

    # --- the end --------------------------------------------------------------------------------

    def _end(self) -> None:
        """Wait for what is on its way, write it down, give the endpoints back."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        try:
            while not self._finished.empty():
                self._settle(*self._finished.get_nowait())
            release_endpoints(self.name)
        except Error as error:
            logger.warning("webhooks ended without the database: %s", error)
        finally:
            if not connection.in_atomic_block:
                connection.close()


def _room(endpoint: WebhookEndpoint, flying: int) -> int:
    """How many more tries an endpoint may have: one at all while it fails, none while it rests."""
    if endpoint.retry_at is not None and endpoint.retry_at > timezone.now():
        return 0
    most = 1 if endpoint.failures else conf.webhook_per_endpoint()
    return max(0, most - flying)
