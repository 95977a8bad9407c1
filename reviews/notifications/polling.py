"""The loop of the notification threads, which run beside the sweeper's rounds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.db import Error, close_old_connections, connection

from reviews import conf

logger = logging.getLogger(__name__)


def poll(work: Callable[[], int], stop: threading.Event) -> None:
    """Call `work` until stopped, without a pause while it returns more than 0.

    Errors are logged and do not end the loop, so it survives an unavailable database.
    """
    try:
        while not stop.is_set():
            if not _once(work):
                stop.wait(conf.notice_poll_seconds())
    finally:
        connection.close()


def _once(work: Callable[[], int]) -> int:
    try:
        close_old_connections()
        return work()
    except Error as error:
        logger.warning("notifications wait for the database: %s", error)
        connection.close()
    except Exception:
        logger.exception("a round of notifications failed, trying again")
    return 0
