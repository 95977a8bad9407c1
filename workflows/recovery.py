"""The sweeper: sends for workers again, and lets time decide what time is to decide.

PostgreSQL is the outbox: an execution with work and no live lease is put on the queue again, at the
latest after `sweep_seconds`.  All clocks are the database's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.utils.module_loading import import_string

from . import conf, dispatch, journal

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one round did."""

    sent: int
    hooks: int


def sweep() -> Sweep:
    """One round: work that was lost goes back on the queue, hooks (hold timers) run.

    A hook that fails is logged and does not keep the others from running.
    """
    overdue = journal.take_overdue(patience=conf.sweep_seconds())
    for execution_id in overdue:
        dispatch.enqueue(dispatch.ADVANCE, execution_id)
    if overdue:
        logger.info("sent again for %s executions", len(overdue))
    done = 0
    for path in settings.HOLDPOINT.get("sweep_hooks", ()):
        done += _run(path, import_string(path))
    return Sweep(sent=len(overdue), hooks=done)


def _run(path: str, hook: Callable[[], int]) -> int:
    try:
        return hook()
    except Exception:
        logger.exception("sweep hook %s failed", path)
        return 0
