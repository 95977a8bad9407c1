"""One database session from test to test: a new one takes 25 to 45 ms until its catalogue is warm.

Django closes it after each transactional test, so that nothing of one test is left in it for the
next. Here it is put back as it was opened instead, and closed only where that cannot be done. A
test that asks for no database finds no open session, in whatever order tests run.
"""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import TransactionTestCase
from psycopg import Connection
from psycopg.pq import TransactionStatus

#: What gives a test a database, among the fixtures it asks for.
DATABASE = {"db", "transactional_db", "_django_db_helper", "live_server"}
#: What a test may have left in a session: settings, temporary tables, channels, locks.
AS_OPENED = "RESET ALL; DISCARD TEMP; UNLISTEN *; SELECT pg_advisory_unlock_all()"


def install(patch: pytest.MonkeyPatch) -> None:
    """Keep sessions in this way for as long as the patch holds."""
    patch.setattr(TransactionTestCase, "_should_reload_connections", put_back)


def put_back(case: TransactionTestCase) -> bool:
    """In the place of Django's question whether sessions are to be closed: no, it was seen to."""
    for wrapper in connections.all(initialized_only=True):
        if not is_idle(wrapper) or not is_as_opened(wrapper):
            wrapper.close()
    return False


def is_idle(wrapper: BaseDatabaseWrapper) -> bool:
    """Whether there is a session, alive and outside of a transaction."""
    raw = wrapper.connection
    return (
        isinstance(raw, Connection)
        and not raw.closed
        and wrapper.autocommit
        and not wrapper.in_atomic_block
        and raw.info.transaction_status == TransactionStatus.IDLE
    )


def is_as_opened(wrapper: BaseDatabaseWrapper) -> bool:
    """Whether the session is again what it was; not when the server has ended it meanwhile."""
    wrapper.run_on_commit = []
    try:
        with wrapper.cursor() as cursor:
            cursor.execute(AS_OPENED)
    except DatabaseError:
        return False
    return True


def close_unless_asked_for(item: pytest.Item) -> None:
    """Before a test: without a database it must not meet the session of the one before."""
    asked = DATABASE.intersection(getattr(item, "fixturenames", ()))
    if not asked and item.get_closest_marker("django_db") is None:
        for wrapper in connections.all(initialized_only=True):
            if wrapper.connection is not None:
                # Playwright keeps an event loop in this thread, before which Django's own close()
                # shies away.
                wrapper.connection.close()
                wrapper.connection = None
