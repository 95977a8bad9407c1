"""Work that goes on beside the sweeper's rounds, each in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.db import Error, close_old_connections, connection

from reviews import conf

logger = logging.getLogger(__name__)


def repeat(work: Callable[[], int], stop: threading.Event) -> None:
    """Call `work` until stopped, at once again while it finds something to do.

    A database that is away is waited for; nothing that goes wrong ends it.
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
        logger.warning("notices wait for the database: %s", error)
        connection.close()
    except Exception:
        logger.exception("a round of notices failed, trying again")
    return 0
