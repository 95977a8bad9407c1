"""The pool of database sessions: borrowing, session state, and a server that ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection
from django.db.backends.postgresql.base import DatabaseWrapper

from config.database.errors import is_database_unavailable
from config.settings.databases import with_pool
from tests.support.processes import wait_for

pytestmark = pytest.mark.django_db(transaction=True)
Borrower = Callable[[], DatabaseWrapper]


@pytest.fixture
def borrower(request: pytest.FixtureRequest) -> Iterator[Borrower]:
    """Makes what each thread of a web process has, over one pool: two sessions, one if asked."""
    most = getattr(request, "param", 2)
    entry = with_pool(connection.settings_dict, min_size=0, max_size=most, wait_seconds=10)
    entry["OPTIONS"]["application_name"] = request.node.originalname[:60]
    made: list[DatabaseWrapper] = []

    def make() -> DatabaseWrapper:
        mine = DatabaseWrapper({**entry, "CONN_MAX_AGE": 0}, alias="pooled_in_a_test")
        if threading.current_thread() is threading.main_thread():  # others close their own
            made.append(mine)
        return mine

    yield make
    for each in made:
        each.close()
    made[0].close_pool()


def first_value(session: DatabaseWrapper, statement: str) -> Any:
    """The first column of the first row."""
    with session.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


def end_all(pool: DatabaseWrapper) -> int:
    """End the pool's sessions, as a restart of the server does; how many there were."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE application_name = %s",
            [pool.settings_dict["OPTIONS"]["application_name"]],
        )
        return len(cursor.fetchall())


@pytest.mark.parametrize("borrower", [1], indirect=True)
def test_a_session_is_reused_without_the_state_of_the_last_request(borrower: Borrower) -> None:
    first = borrower()
    pid = first_value(first, "SELECT pg_backend_pid()")
    zone = first_value(first, "SELECT current_setting('TimeZone')")
    with first.cursor() as cursor:
        cursor.execute("SET statement_timeout = '7s'")
        cursor.execute("SET TIME ZONE 'Asia/Tokyo'")
        cursor.execute("SET ROLE pg_read_all_data")
        cursor.execute("LISTEN news")
        cursor.execute("CREATE TEMPORARY TABLE left_behind (n int)")
        cursor.execute("SELECT pg_advisory_lock(4711)")
    first.close()
    second = borrower()
    assert first_value(second, "SELECT pg_backend_pid()") == pid
    assert first_value(second, "SELECT current_setting('statement_timeout')") == "0"
    assert first_value(second, "SELECT current_setting('TimeZone')") == zone == "UTC"
    assert first_value(second, "SELECT current_user = session_user") is True
    assert first_value(second, "SELECT count(*) FROM pg_listening_channels()") == 0
    assert first_value(second, "SELECT to_regclass('left_behind')") is None
    assert first_value(connection, "SELECT pg_try_advisory_lock(4711)") is True  # nobody holds it
    assert first_value(connection, "SELECT pg_advisory_unlock(4711)") is True


@pytest.mark.parametrize("borrower", [1], indirect=True)
def test_an_open_transaction_is_rolled_back(borrower: Borrower) -> None:
    first = borrower()
    with first.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS kept_by_a_pool (n int)")
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO kept_by_a_pool VALUES (1)")
    first.close()
    try:
        assert first_value(borrower(), "SELECT count(*) FROM kept_by_a_pool") == 0
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE kept_by_a_pool")


@pytest.mark.parametrize("borrower", [8], indirect=True)
def test_after_a_restart_the_next_request_gets_a_live_session(borrower: Borrower) -> None:
    wrappers = [borrower() for _ in range(8)]
    for each in wrappers:
        first_value(each, "SELECT 1")
    for each in wrappers:
        each.close()
    pool = wrappers[0].pool
    assert pool is not None
    wait_for(lambda: pool.get_stats()["pool_available"] == 8, what="all are given back")
    assert end_all(wrappers[0]) == 8
    errors: list[Exception] = []

    def ask() -> None:
        mine = borrower()
        try:
            assert first_value(mine, "SELECT 1") == 1
        except Exception as error:  # a thread's own is lost
            errors.append(error)
        finally:
            mine.close()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.parametrize("borrower", [1], indirect=True)
def test_a_pool_timeout_differs_from_a_statement_error(borrower: Borrower) -> None:
    first, second = borrower(), borrower()
    first_value(first, "SELECT 1")
    assert second.pool is not None
    second.pool.timeout = 0.2
    with pytest.raises(OperationalError) as waited:
        first_value(second, "SELECT 1")
    second.pool.timeout = 10
    assert is_database_unavailable(waited.value)
    assert end_all(first) == 1
    with pytest.raises(OperationalError) as ended:
        first_value(first, "SELECT 1")
    assert is_database_unavailable(ended.value)
    first.close()
    with pytest.raises(OperationalError) as late:
        first_value(second, "SET statement_timeout = '10ms'; SELECT pg_sleep(5)")
    assert not is_database_unavailable(late.value)


def test_an_unreachable_server_is_unavailable() -> None:
    with pytest.raises(psycopg.OperationalError) as refused:
        psycopg.connect("host=127.0.0.1 port=1 dbname=nowhere connect_timeout=2")
    error = OperationalError("as Django raises it")
    error.__cause__ = refused.value
    assert is_database_unavailable(error)


def test_a_server_with_a_full_disk_is_unavailable() -> None:
    error = OperationalError("as Django raises it")
    error.__cause__ = psycopg.errors.DiskFull("could not extend file")
    assert is_database_unavailable(error)
