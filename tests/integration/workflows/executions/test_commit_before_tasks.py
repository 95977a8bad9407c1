"""The step before a layer is durable before any task of the layer runs."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import transaction
from django.db.models import F

from tests.integration.workflows.conftest import Engine, source
from tests.integration.workflows.journal.test_leases import expire_lease, in_thread
from tests.support.catalogue import stock_catalogue
from tests.support.processes import wait_for
from workflows.engine.protocol import execute_move as engine_execute_move
from workflows.engine.protocol.ports import LeaseLost, Run, TaskCall
from workflows.executions.jobs import run_to_rest
from workflows.journal.prepared_statements import execute
from workflows.models import Execution
from workflows.realtime.signals import execution_changed
from workflows.tools.registry import tool

#: `looks` counts calls of `look` and `write`; `gate` sets `reached` and waits for `opened`.
looks = threading.Semaphore(0)
reached, opened = threading.Event(), threading.Event()


@tool(server="committest", permission_set="readonly", read_only=True, idempotent=True)
def look(value: Any) -> Any:
    """Return the value and count the call."""
    looks.release()
    return value


@tool(server="committest", permission_set="readonly", read_only=True)
def gate(value: Any) -> Any:
    """Return the value once the test opens the gate."""
    reached.set()
    assert opened.wait(30)
    return value


@tool(server="committest", permission_set="filesystem")
def write(value: Any) -> Any:
    """Return the value and count the call; declared as a tool that writes."""
    looks.release()
    return value


@pytest.fixture
def desk(engine: Engine) -> Engine:
    """The engine with these tools in the catalogue and no calls counted."""
    stock_catalogue()
    while looks.acquire(blocking=False):
        pass
    reached.clear()
    opened.clear()
    return engine


def task(name: str, kind: str, value: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": f"committest.{kind}", "arguments": {"value": value}}


@contextmanager
def working(execution: Execution) -> Iterator[Future[object]]:
    """Run a worker in its own thread up to the gate; earlier steps are durable."""
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
    """Open the gate; the worker's next step waits for a lock inside the block."""
    with transaction.atomic():
        Execution.objects.select_for_update().get(pk=execution.pk)
        opened.set()
        wait_for(somebody_waits_for_a_lock)
        yield


def somebody_waits_for_a_lock() -> bool:
    here = "wait_event_type = 'Lock' AND datname = current_database()"
    return execute(f"SELECT count(*) FROM pg_stat_activity WHERE {here}") != [(0,)]


def test_tasks_wait_until_the_step_before_them_is_durable(desk: Engine) -> None:
    layer = [task(name, kind, source("a")) for name, kind in (("b", "look"), ("c", "write"))]
    execution = desk.start(task("a", "gate", 1), *layer)
    with working(execution) as work:
        with step_held_up(execution):
            assert not looks.acquire(blocking=False)
        assert work.result(30).status == "COMPLETED"  # type: ignore[attr-defined]
    assert desk.statuses(execution) == dict.fromkeys("abc", "SUCCEEDED")


def test_no_task_runs_after_another_worker_has_taken_the_lease(desk: Engine) -> None:
    execution = desk.start(task("a", "gate", 1), task("b", "look", source("a")))
    with working(execution) as work:
        with step_held_up(execution):
            Execution.objects.filter(pk=execution.pk).update(fence=F("fence") + 1)
            before = desk.kinds(execution)
        with pytest.raises(LeaseLost):
            work.result(30)
    assert not looks.acquire(blocking=False)
    assert desk.kinds(execution) == before
    expire_lease(execution)
    assert desk.drive(execution).status == "COMPLETED"
    assert desk.statuses(execution) == {"a": "SUCCEEDED", "b": "SUCCEEDED"}


def test_results_are_durable_while_a_long_task_runs(desk: Engine) -> None:
    execution = desk.start(task("a", "look", 1), task("b", "gate", source("a")))
    with working(execution) as work:
        wait_for(lambda: desk.statuses(execution) == {"a": "SUCCEEDED"})
        assert not work.done()
    assert desk.statuses(execution) == {"a": "SUCCEEDED", "b": "SUCCEEDED"}


def test_committed_events_are_published_when_the_worker_fails_afterwards(
    desk: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[int] = []

    def receive(sender: object, *, first_seq: int, last_seq: int, **more: object) -> None:
        published.extend(range(first_seq, last_seq + 1))

    def call_for(run: Run, task_id: str) -> TaskCall:
        if task_id == "b":
            raise RuntimeError("a bug")
        return make_call(run, task_id)

    make_call = engine_execute_move.call_for
    execution = desk.start(task("a", "look", 1), task("b", "look", source("a")))
    monkeypatch.setattr(engine_execute_move, "call_for", call_for)
    execution_changed.connect(receive)
    try:
        with pytest.raises(RuntimeError, match="a bug"):
            desk.drive(execution)
    finally:
        execution_changed.disconnect(receive)
    assert desk.statuses(execution) == {"a": "SUCCEEDED"}
    assert published == list(range(1, len(desk.kinds(execution)) + 1))
