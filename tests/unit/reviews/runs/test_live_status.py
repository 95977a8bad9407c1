"""Which tasks count as running, and since when, read off the journal's newest events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from reviews.runs.live_status import with_live_status
from workflows.executions.selectors import TaskView
from workflows.models import ExecutionEvent

START = datetime(2026, 1, 1, tzinfo=UTC)


def view(name: str, **more: Any) -> TaskView:
    known = {"label": name, "type": "tool", "target": "unit.value", "layer": 0, "needs": ()}
    return TaskView(id=name, permission_set=None, **{**known, "status": "SUCCEEDED", **more})


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def event(kind: str, seconds: float, **payload: Any) -> ExecutionEvent:
    return ExecutionEvent(kind=kind, payload=payload, created_at=at(seconds))


def test_a_running_task_runs_since_its_layer_began() -> None:
    events = [
        event("execution_started", 0),
        event("layer_started", 1, tasks=["a", "b"]),
        event("task_succeeded", 4, task_id="b"),
        event("message_added", 5, content="hello"),
    ]
    tasks, since = with_live_status([view("a", status="RUNNING"), view("b")], events, at(10))
    assert [task.status for task in tasks] == ["RUNNING", "SUCCEEDED"]
    assert since == {"a": at(1)}


def test_a_decision_lets_the_held_task_begin() -> None:
    events = [event("layer_started", 1), event("hold_decided", 60, task_id="a")]
    _, since = with_live_status([view("a", status="RUNNING")], events, at(70))
    assert since == {"a": at(60)}


def test_a_task_that_waits_for_its_next_try_is_pending_until_then() -> None:
    events = [
        event("layer_started", 1),
        event("task_errored", 3, task_id="a", retry_at=at(20).timestamp()),
    ]
    tasks, since = with_live_status([view("a", status="RUNNING")], events, at(10))
    assert (tasks[0].status, since) == ("PENDING", {})
    tasks, since = with_live_status([view("a", status="RUNNING")], events, at(25))
    assert (tasks[0].status, since) == ("RUNNING", {"a": at(20)})


def test_without_its_start_event_a_task_has_no_clock() -> None:
    tasks, since = with_live_status(
        [view("a", status="RUNNING")], [event("task_succeeded", 3)], at(9)
    )
    assert (tasks[0].status, since) == ("RUNNING", {})
