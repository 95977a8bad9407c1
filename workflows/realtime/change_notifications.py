"""Change notifications: send a signal after commit when an execution has changed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from django.db import transaction

from workflows.engine.protocol.state import ExecutionState

from .signals import execution_changed

#: Seconds between two notifications about an execution that a worker advances.
MIN_INTERVAL_SECONDS = 0.05


class ChangeNotifier:
    """Notifies listeners about one execution; remembers the version of the last notification."""

    def __init__(self, execution_id: str, version: int) -> None:
        self._execution_id = execution_id
        # The interval applies to the first step too: many executions stop within it.
        self._version, self._sent_at = version, time.monotonic()

    def publish(self, committed: ExecutionState, *, at_once: bool) -> None:
        """Notify about new events, at most once per MIN_INTERVAL_SECONDS unless `at_once`."""
        is_due = at_once or time.monotonic() - self._sent_at > MIN_INTERVAL_SECONDS
        if committed.version > self._version and is_due:
            self._send(committed)

    def publish_started(self, committed: ExecutionState, task_ids: Sequence[str]) -> None:
        """Notify that these tasks run; this is not recorded as an event."""
        if task_ids:
            self._send(committed, tuple(task_ids))

    def _send(self, committed: ExecutionState, started: tuple[str, ...] = ()) -> None:
        transaction.on_commit(
            partial(
                execution_changed.send_robust,
                sender=None,
                execution_id=self._execution_id,
                first_seq=self._version + 1,
                last_seq=committed.version,
                status=committed.status.value,
                started=started,
            )
        )
        self._version, self._sent_at = committed.version, time.monotonic()
