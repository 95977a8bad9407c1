"""The loop of the notification threads, which run beside the sweeper's rounds."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from django.db import Error, close_old_connections, connection

from workflows.realtime import work_hints

#: Shortest interval between two reads of journal and outbox.
POLL_SECONDS = 0.5

logger = logging.getLogger(__name__)

_LONG_SECONDS = 5.0


def poll(
    work: Callable[[], int],
    stop: threading.Event,
    *,
    group: str,
    due: Callable[[], float | None],
) -> None:
    """Call `work` until stopped, without a pause while it returns more than 0.

    Otherwise wait for a hint of the group (`work_hints`) or until the next item is `due`, in
    seconds or None.  Rounds without work keep the poll interval, however many hints arrive.  Errors
    are logged and do not end the loop, so it survives an unavailable database.
    """
    hint = threading.Event()
    try:
        with work_hints.woken([group], lambda _: hint.set()):
            while not stop.is_set():
                hint.clear()
                seconds = _round(work, due)
                if seconds >= _LONG_SECONDS:
                    connection.close()  # a session of PostgreSQL takes memory
                if seconds:
                    _rest(seconds, hint, stop)
    finally:
        connection.close()


def _round(work: Callable[[], int], due: Callable[[], float | None]) -> float:
    """Do a round, and return the seconds until the next one."""
    try:
        close_old_connections()
        if work():
            return 0
        return _seconds_to_wait(due() if work_hints.is_listening() else 0)
    except Error as error:
        logger.warning("notifications wait for the database: %s", error)
        connection.close()
    except Exception:
        logger.exception("a round of notifications failed, trying again")
    return POLL_SECONDS


def _seconds_to_wait(due: float | None) -> float:
    seconds = work_hints.BACKSTOP_SECONDS if due is None else due
    return max(POLL_SECONDS, min(work_hints.BACKSTOP_SECONDS, seconds))


def _rest(seconds: float, hint: threading.Event, stop: threading.Event) -> None:
    begun = time.monotonic()
    hint.wait(seconds)
    # A burst of hints starts one round.
    stop.wait(max(0.0, begun + POLL_SECONDS - time.monotonic()))
