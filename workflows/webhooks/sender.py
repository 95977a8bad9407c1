"""The sender: one thread that uses the database, and a pool of threads that send requests.

It runs in the sweeper's process or in processes of its own (`manage.py send_webhooks`); an endpoint
belongs to one sender at a time. A receiver that fails gets one thread of the pool at most, so that
a slow receiver does not delay other endpoints.
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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from django.db import Error, close_old_connections, connection

from workflows import conf
from workflows.journal.event_log import ReadWatermark
from workflows.models import WebhookEndpoint
from workflows.realtime import work_hints

from . import attempts
from .attempts import Message, Outcome
from .fan_out import create_deliveries
from .leases import (
    claim_endpoints,
    has_pending,
    held_endpoints,
    in_backoff,
    next_messages,
    release_endpoints,
)
from .retries import record_outcome

#: Parallel attempts to one endpoint, each for another execution.
PER_ENDPOINT = 4

logger = logging.getLogger(__name__)

Post = Callable[[Message], Outcome]
_Lane = tuple[int, int]


class Sender:
    """Send due deliveries until `stop` is set; `report` is called before each round.

    Tests replace `post`.
    """

    def __init__(
        self,
        stop: threading.Event,
        *,
        post: Post | None = None,
        report: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"[-100:]
        self._stop = stop
        self._report = report
        self._post = post or (lambda message: attempts.post(message, should_stop=stop.is_set))
        self._pool = ThreadPoolExecutor(conf.webhook_concurrency(), "webhook")
        # Ended attempts, and the groups of hints (`work_hints`).
        self._finished: queue.SimpleQueue[tuple[Message, Outcome | None] | str]
        self._finished = queue.SimpleQueue()
        self._pause = 0.0
        self._is_behind = False
        self._in_flight: dict[_Lane, Message] = {}
        self._watermark = ReadWatermark()
        self._claimed_at = self._held_until = float("-inf")
        self._ids: tuple[int, ...] = ()

    def run(self) -> None:
        """Run until stopped; wait while the database is unavailable."""
        try:
            with work_hints.woken((work_hints.CHANGES, work_hints.WORK), self._finished.put):
                while not self._stop.is_set():
                    self._report()
                    self._try_round()
        finally:
            self._end()

    def _try_round(self) -> None:
        try:
            self.round()
        except Error as error:
            logger.warning("webhooks wait for the database: %s", error)
            self._rest()
        except Exception:
            logger.exception("a round of webhooks failed, trying again")
            self._rest()

    def _rest(self) -> None:
        connection.close()
        self._pause = 0.0
        self._stop.wait(1.0)

    def round(self) -> int:
        """Record ended attempts, create deliveries, start due attempts; return how many started."""
        self._settle_all(self._ended())
        started = sum(self._start(each) for each in self._due_endpoints())
        self._pause = self._seconds_to_wait()
        close_old_connections()
        return started

    # --- ended attempts --------------------------------------------------------------------------

    def _ended(self) -> list[tuple[Message, Outcome | None]]:
        """Return the ended attempts; wait for the first one, or until the next round."""
        begun, seconds = time.monotonic(), max(conf.webhook_poll_seconds(), self._pause)
        ended = list[tuple[Message, Outcome | None]]()
        with suppress(queue.Empty):
            while True:
                left = 0.0 if ended else begun + seconds - time.monotonic()
                item = self._finished.get(timeout=max(0.0, left))
                if not isinstance(item, str):
                    ended.append(item)
                    continue
                seconds = conf.webhook_poll_seconds()  # a burst of hints starts one round
                if item == work_hints.WORK:
                    self._claimed_at = float("-inf")  # perhaps an endpoint is new
        return ended

    def _seconds_to_wait(self) -> float:
        """Return 0 while something may become due without a hint, else the time to the renewal."""
        waits = work_hints.is_listening() and not self._watermark.is_waiting
        if not waits or self._is_behind or self._in_flight or has_pending(self._ids):
            return 0.0
        # Long before the claims end, so that this sender keeps its endpoints.
        return min(work_hints.BACKSTOP_SECONDS, conf.webhook_lease_seconds() / 3)

    def _settle_all(self, ended: list[tuple[Message, Outcome | None]]) -> None:
        """Record the outcomes; keep all that are left when one cannot be recorded.

        Their messages were sent, and their lanes are busy until the database is available.
        """
        settled = 0
        try:
            for message, outcome in ended:
                self._settle(message, outcome)
                settled += 1
        finally:
            for each in ended[settled:]:
                self._finished.put(each)

    def _settle(self, message: Message, outcome: Outcome | None) -> None:
        if outcome is not None and not record_outcome(outcome, sender=self.name):
            self._claimed_at = float("-inf")  # the claim is lost: claim again at once
        self._in_flight.pop((message.endpoint_id, message.lane), None)

    # --- due attempts ----------------------------------------------------------------------------

    def _due_endpoints(self) -> list[tuple[WebhookEndpoint, int]]:
        """Return endpoints with the number of attempts to start now, distributed round-robin."""
        endpoints = self._endpoints()
        if not endpoints:
            self._is_behind = False
            return []
        horizon = self._watermark.advance()
        for endpoint in endpoints:
            create_deliveries(endpoint, horizon=horizon, sender=self.name)
        self._is_behind = any(each.cursor < horizon for each in endpoints)
        in_flight = Counter(lane[0] for lane in self._in_flight)
        free = conf.webhook_concurrency() - len(self._in_flight)
        resting = in_backoff(endpoints)
        capacity = {
            each.pk: _capacity(each, in_flight[each.pk])
            for each in endpoints
            if each.pk not in resting
        }
        shares: Counter[int] = Counter()
        while free > 0 and any(capacity[pk] > shares[pk] for pk in capacity):
            for pk in capacity:
                if free > 0 and capacity[pk] > shares[pk]:
                    shares[pk] += 1
                    free -= 1
        return [(each, shares[each.pk]) for each in endpoints if shares[each.pk]]

    def _endpoints(self) -> list[WebhookEndpoint]:
        """Return the endpoints that this sender holds; renew claims well before they expire."""
        now, lease = time.monotonic(), conf.webhook_lease_seconds()
        if now - self._claimed_at < min(2.0, lease / 5):
            return held_endpoints(self.name, self._ids)
        endpoints = claim_endpoints(self.name)
        # Measured from before the claim, so that it ends no later than in the database.
        self._claimed_at, self._held_until = now, now + lease
        self._ids = tuple(each.pk for each in endpoints)
        return endpoints

    def _start(self, due: tuple[WebhookEndpoint, int]) -> int:
        endpoint, limit = due
        busy = [lane for pk, lane in self._in_flight if pk == endpoint.pk]
        messages = next_messages(endpoint, busy=busy, limit=limit)
        for message in messages:
            self._in_flight[(message.endpoint_id, message.lane)] = message
            self._pool.submit(self._try, message, self._held_until)
        return len(messages)

    def _try(self, message: Message, held_until: float) -> None:
        """Send a message in a thread of the pool, unless the claim could end before."""
        outcome = None
        try:
            if time.monotonic() + conf.webhook_timeout_seconds() < held_until:
                outcome = self._post(message)
            if outcome is not None and outcome.error and self._stop.is_set():
                outcome = None  # interrupted by the shutdown, not a failure of the receiver
        except Exception:
            logger.exception("webhook %s was not sent", message.message_id)
            outcome = Outcome(message, None, "the message could not be sent; see the log", 0)
        finally:
            self._finished.put((message, outcome))

    # --- shutdown --------------------------------------------------------------------------------

    def _end(self) -> None:
        """Wait for the running attempts, record their outcomes, release the claims."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        try:
            while not self._finished.empty():
                item = self._finished.get_nowait()
                if not isinstance(item, str):
                    self._settle(*item)
            release_endpoints(self.name)
        except Error as error:
            logger.warning("webhooks ended without the database: %s", error)
        finally:
            if not connection.in_atomic_block:
                connection.close()


def _capacity(endpoint: WebhookEndpoint, in_flight: int) -> int:
    """Return how many more attempts may start: one in all while the endpoint fails."""
    limit = 1 if endpoint.failures else PER_ENDPOINT
    return max(0, limit - in_flight)
