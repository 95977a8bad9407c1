"""Task-started notices: the wire event `task_started`, which has no `seq`.

A notice is sent to present subscribers only and is not recorded.  It may arrive after a subscriber
has read the task's result from the journal; it is dropped then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypedDict

#: Notices that a subscriber keeps while it delivers recorded events.
_MAX_NOTICES = 1000
_RESULTS = frozenset({"task_complete", "task_error", "task_escalated"})


class TaskStarted(TypedDict):
    """Task `node` was running at `at` (ms since the epoch), after event `after` was recorded."""

    node: str
    after: int
    at: int


class StartedTasks:
    """The notices that one subscriber has received and not yet delivered."""

    def __init__(self) -> None:
        self._pending: deque[TaskStarted] = deque(maxlen=_MAX_NOTICES)
        self._results: dict[str, int] = {}

    def receive(self, message: Mapping[str, Any]) -> None:
        """Add the notices in a message of the channel layer, if any."""
        self._pending.extend(message.get("started", ()))

    def mark_delivered(self, event: Mapping[str, Any]) -> None:
        """Record that a wire event was delivered to the subscriber."""
        if event["type"] in _RESULTS:
            self._results[event["nodeId"]] = event["seq"]

    def take(self, execution_id: int) -> Iterator[dict[str, Any]]:
        """Yield the wire events of tasks that still run, each once."""
        while self._pending:
            notice = self._pending.popleft()
            if self._results.get(notice["node"], 0) <= notice["after"]:
                yield task_started_event(execution_id, notice)


def task_started_event(execution_id: int, notice: TaskStarted) -> dict[str, Any]:
    """Return the wire event of a notice."""
    return {
        "type": "task_started",
        "executionId": str(execution_id),
        "nodeId": notice["node"],
        "timestamp": notice["at"],
    }


def task_started_notices(task_ids: Iterable[str], *, after: int, at: int) -> list[TaskStarted]:
    """Return notices for these tasks, at most as many as a subscriber keeps."""
    return [TaskStarted(node=node, after=after, at=at) for node in list(task_ids)[:_MAX_NOTICES]]
