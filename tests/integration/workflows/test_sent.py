"""A step is sent, and waited for only when somebody has to know: what may happen meanwhile."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import DataError, connection, transaction
from django.db.models import F

from tests.integration.workflows.conftest import Engine, source
from tests.integration.workflows.test_leases import expire_lease, in_thread
from tests.support.catalogue import stock_catalogue
from tests.support.processes import wait_for
from workflows.engine import execute_move as engine_execute_move
from workflows.engine.ports import LeaseLost, Run, TaskCall
from workflows.executions.jobs import run_to_rest
from workflows.journal.statements import Sent, ask, execute
from workflows.models import Execution
from workflows.realtime.signals import execution_changed
from workflows.tools.registry import tool

#: Counts calls of `look`; `gate` tells that it was reached, and waits to be opened.
looks = threading.Semaphore(0)
reached, opened = threading.Event(), threading.Event()


@tool(server="senttest", permission_set="readonly", read_only=True, idempotent=True)
def look(value: Any) -> Any:
    """Give the value back; leaves nothing behind but a word to the test of this process."""
    looks.release()
    return value


@tool(server="senttest", permission_set="readonly", read_only=True)
def gate(value: Any) -> Any:
    """Give the value back, once the test says so."""
    reached.set()
    assert opened.wait(30)
    return value


@tool(server="senttest", permission_set="filesystem")
def write(value: Any) -> Any:
    """Give the value back; counts as writing."""
    looks.release()
    return value


@pytest.fixture
def desk(engine: Engine) -> Engine:
    """The engine, with these tools in the catalogue; nothing was called yet."""
    stock_catalogue()
    while looks.acquire(blocking=False):
        pass
    reached.clear()
    opened.clear()
    return engine


def task(name: str, kind: str, value: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": f"senttest.{kind}", "arguments": {"value": value}}


@contextmanager
def working(execution: Execution) -> Iterator[Future[object]]:
    """A worker in a thread of its own, which has come to the gate; all before it has landed."""
    with ThreadPoolExecutor(1) as pool:
        try:
            work = pool.submit(in_thread, run_to_rest, execution.pk)
            assert reached.wait(30)
            wait_for(lambda: Engine().kinds(execution)[-1:] == ["layer_started"])
            yield work
        finally:
            opened.set()


@contextmanager
def step_held_up(execution: Execution) -> Iterator[None]:
    """The worker goes on from the gate; its next step cannot land inside."""
    with transaction.atomic():
        Execution.objects.select_for_update().get(pk=execution.pk)
        opened.set()
        wait_for(somebody_waits_for_a_lock)
        yield


def somebody_waits_for_a_lock() -> bool:
    here = "wait_event_type = 'Lock' AND datname = current_database()"
    return execute(f"SELECT count(*) FROM pg_stat_activity WHERE {here}") != [(0,)]


# --- layers ---------------------------------------------------------------------------------------


def test_what_only_reads_begins_while_the_step_before_it_is_written(desk: Engine) -> None:
    execution = desk.start(task("a", "gate", 1), task("b", "look", source("a")))
    with working(execution) as work:
        with step_held_up(execution):
            assert looks.acquire(timeout=30), "it waits for the disk"
            assert desk.statuses(execution) == {}
        assert work.result(30).status == "COMPLETED"  # type: ignore[attr-defined]
    assert desk.statuses(execution) == {"a": "SUCCEEDED", "b": "SUCCEEDED"}


def test_what_has_an_effect_waits_until_it_is_written(desk: Engine) -> None:
    layer = [task(name, kind, source("a")) for name, kind in (("b", "look"), ("c", "write"))]
    execution = desk.start(task("a", "gate", 1), *layer)
    with working(execution) as work:
        with step_held_up(execution):
            assert not looks.acquire(blocking=False), "one task of the layer writes"
        assert work.result(30).status == "COMPLETED"  # type: ignore[attr-defined]


def test_of_what_began_too_early_nothing_lands(desk: Engine) -> None:
    execution = desk.start(task("a", "gate", 1), task("b", "look", source("a")))
    with working(execution) as work:
        with step_held_up(execution):
            assert looks.acquire(timeout=30)
            Execution.objects.filter(pk=execution.pk).update(fence=F("fence") + 1)
            before = desk.kinds(execution)
        with pytest.raises(LeaseLost):
            work.result(30)
    assert desk.kinds(execution) == before
    expire_lease(execution)
    assert desk.drive(execution).status == "COMPLETED"
    assert desk.statuses(execution) == {"a": "SUCCEEDED", "b": "SUCCEEDED"}


def test_a_step_lands_while_a_long_look_goes_on(desk: Engine) -> None:
    execution = desk.start(task("a", "look", 1), task("b", "gate", source("a")))
    with working(execution) as work:
        wait_for(lambda: desk.statuses(execution) == {"a": "SUCCEEDED"})
        assert not work.done()
    assert desk.statuses(execution) == {"a": "SUCCEEDED", "b": "SUCCEEDED"}


def test_what_landed_is_told_whatever_fails_meanwhile(
    desk: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []

    def hear(sender: object, *, first_seq: int, last_seq: int, **more: object) -> None:
        told.extend(range(first_seq, last_seq + 1))

    def call_for(run: Run, task_id: str) -> TaskCall:
        if task_id == "b":
            raise RuntimeError("a bug")
        return make_call(run, task_id)

    make_call = engine_execute_move.call_for
    execution = desk.start(task("a", "look", 1), task("b", "look", source("a")))
    monkeypatch.setattr(engine_execute_move, "call_for", call_for)
    execution_changed.connect(hear)
    try:
        with pytest.raises(RuntimeError, match="a bug"):
            desk.drive(execution)
    finally:
        execution_changed.disconnect(hear)
    assert desk.statuses(execution) == {"a": "SUCCEEDED"}
    assert told == list(range(1, len(desk.kinds(execution)) + 1))


# --- statements -----------------------------------------------------------------------------------


def test_the_next_question_waits_for_what_was_sent(transactional_db: None) -> None:
    sent = Sent("SELECT %(one)s::int", {"one": 1})
    assert Execution.objects.count() == 0
    assert connection.execute_wrappers == []
    assert sent.rows() == [(1,)]
    assert sent.rows() == [(1,)]


def test_one_is_under_way_at_a_time(transactional_db: None) -> None:
    sent = [Sent("SELECT %(n)s::int", {"n": n}) for n in range(3)]
    assert [each.rows() for each in reversed(sent)] == [[(2,)], [(1,)], [(0,)]]


def test_a_failure_is_told_to_who_sent_it_and_to_nobody_else(transactional_db: None) -> None:
    sent = Sent("SELECT 1 / %(nothing)s::int", {"nothing": 0})
    assert Execution.objects.count() == 0
    assert execute("SELECT 1") == [(1,)]
    for _ in range(2):
        with pytest.raises(DataError):
            sent.rows()


def test_wrappers_of_others_stay_their_own(transactional_db: None) -> None:
    seen: list[str] = []

    def spy(run: Any, sql: str, *rest: Any) -> Any:
        seen.append(sql)
        return run(sql, *rest)

    with connection.execute_wrapper(spy):
        sent = Sent("SELECT 1")
    assert connection.execute_wrappers == [sent]
    assert not Execution.objects.exists()
    assert seen == []
    assert sent.rows() == [(1,)]


def test_a_kept_plan_outlives_a_migration(transactional_db: None) -> None:
    """Another session changes the type of a column; the next question is answered all the same."""
    execute("CREATE TABLE senttest (name varchar(10))")
    statement = "SELECT name FROM senttest"

    def migrate() -> None:
        execute("ALTER TABLE senttest ALTER name TYPE text")

    try:
        assert ask(statement) == []
        with ThreadPoolExecutor(1) as pool:
            pool.submit(in_thread, migrate).result(30)
        assert ask(statement) == []
    finally:
        execute("DROP TABLE senttest")


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_an_interrupted_wait_is_never_an_answer(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    sent = Sent("SELECT 1")

    def interrupted(*asked: object) -> None:
        raise error

    monkeypatch.setattr(sent._cursor, "finish", interrupted)
    for _ in range(2):
        with pytest.raises(error):
            sent.rows()
    connection.close()
