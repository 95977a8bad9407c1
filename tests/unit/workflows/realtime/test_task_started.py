"""Starts on the wire: each once, without a seq, and never after the task's own result."""

from __future__ import annotations

from workflows.realtime.task_started import StartedTasks, task_started_notices


def subscribed(*names: str, after: int) -> StartedTasks:
    listener = StartedTasks()
    listener.receive({"started": task_started_notices(names, after=after, at=1000)})
    return listener


def test_a_start_notice_has_no_seq_and_is_sent_once() -> None:
    listener = subscribed("a", after=2)
    event = {"type": "task_started", "executionId": "7", "nodeId": "a", "timestamp": 1000}
    assert list(listener.take(7)) == [event]
    assert list(listener.take(7)) == []


def test_a_finished_task_sends_no_start_notice() -> None:
    listener = subscribed("a", "b", after=2)
    listener.mark_delivered({"type": "task_complete", "nodeId": "a", "seq": 3})
    assert [event["nodeId"] for event in listener.take(7)] == ["b"]


def test_a_retry_sends_a_new_start_notice() -> None:
    listener = StartedTasks()
    listener.mark_delivered({"type": "task_error", "nodeId": "a", "seq": 3})
    listener.receive({"started": task_started_notices(["a"], after=4, at=1000)})
    assert [event["nodeId"] for event in listener.take(7)] == ["a"]


def test_other_notifications_are_no_start_notice() -> None:
    listener = StartedTasks()
    listener.receive({"type": "execution.changed", "first": 1, "last": 2})
    listener.mark_delivered({"type": "layer_start", "seq": 2})
    assert list(listener.take(7)) == []


def test_a_slow_subscriber_keeps_the_newest_notices() -> None:
    listener = StartedTasks()
    for number in range(3000):
        listener.receive({"started": task_started_notices([f"t{number}"], after=1, at=1)})
    kept = [event["nodeId"] for event in listener.take(7)]
    assert len(kept) == 1000
    assert kept[-1] == "t2999"
