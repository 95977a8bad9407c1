"""`task_started` on the wire: a light push without a seq, for tasks that take a while.

It is told to those who listen at that moment and recorded nowhere.  News of a start may arrive
after the task's own result was read from the journal; such news is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypedDict

#: Starts that one listener keeps while it is busy with recorded events.
_MOST = 1000
_RESULTS = frozenset({"task_complete", "task_error", "task_escalated"})


class TaskStarted(TypedDict):
    """`node` was running at `at` (ms since the epoch), after the event `after` was recorded."""

    node: str
    after: int
    at: int


class StartedTasks:
    """What one listener has heard of starts and not yet passed on."""

    def __init__(self) -> None:
        self._heard: deque[TaskStarted] = deque(maxlen=_MOST)
        self._results: dict[str, int] = {}

    def receive(self, message: Mapping[str, Any]) -> None:
        """Keep the starts that a message over the channel layer carries, if any."""
        self._heard.extend(message.get("started", ()))

    def mark_delivered(self, event: Mapping[str, Any]) -> None:
        """Note a recorded wire event that the listener has been told."""
        if event["type"] in _RESULTS:
            self._results[event["nodeId"]] = event["seq"]

    def take(self, execution_id: int) -> Iterator[dict[str, Any]]:
        """The wire events of starts whose tasks still run, each once."""
        while self._heard:
            start = self._heard.popleft()
            if self._results.get(start["node"], 0) <= start["after"]:
                yield task_started_event(execution_id, start)


def task_started_event(execution_id: int, start: TaskStarted) -> dict[str, Any]:
    """A start as it travels."""
    return {
        "type": "task_started",
        "executionId": str(execution_id),
        "nodeId": start["node"],
        "timestamp": start["at"],
    }


def task_started_notices(task_ids: Iterable[str], *, after: int, at: int) -> list[TaskStarted]:
    """The starts of these tasks, no more than a listener keeps."""
    return [TaskStarted(node=node, after=after, at=at) for node in list(task_ids)[:_MOST]]
