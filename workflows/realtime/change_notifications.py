"""Word of what is committed: at once when it matters, now and then for a run in a hurry."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from django.db import transaction

from workflows.engine.state import ExecutionState

from .signals import execution_changed

#: The least time between two pieces of news of one execution that is under way.
MIN_INTERVAL_SECONDS = 0.05


class ChangeNotifier:
    """What the listeners of one execution have been told so far: everything up to `version`."""

    def __init__(self, execution_id: str, version: int) -> None:
        self._execution_id = execution_id
        # Not at once for the first step either: a run that stops soon is told of when it stops.
        self._version, self._at = version, time.monotonic()

    def publish(self, committed: ExecutionState, *, at_once: bool) -> None:
        """Send word of events that were not told yet, at most one each MIN_INTERVAL_SECONDS."""
        is_due = at_once or time.monotonic() - self._at > MIN_INTERVAL_SECONDS
        if committed.version > self._version and is_due:
            self._send(committed)

    def publish_started(self, committed: ExecutionState, task_ids: Sequence[str]) -> None:
        """Say that these tasks are running; nothing of it is recorded."""
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
        self._version, self._at = committed.version, time.monotonic()
