"""Groups of the channel layer, and the messages that processes send to them.

Messages contain ids and numbers, no task data: sockets read the data from the database.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypedDict

from workflows.realtime import work_hints
from workflows.realtime.task_started import TaskStarted

#: The group of all sockets of the queue.
REVIEWS = work_hints.CHANGES
#: The group of all sockets, for the number of unread notices.
NOTICES = "notices"


def execution_group(execution_id: int) -> str:
    """Return the group of the sockets of one execution."""
    return f"execution.{execution_id}"


class UnreadChanged(TypedDict):
    """The number of unread notices of these users may have changed."""

    type: str
    user_ids: list[int]


def unread_changed(user_ids: Collection[int]) -> UnreadChanged:
    """Return the message for the sockets of the users whose notices changed."""
    return UnreadChanged(type="unread.changed", user_ids=sorted(user_ids))


class ExecutionChanged(TypedDict):
    """The journal has new events `first` to `last` of an execution.

    `started` are tasks that run and take a while; without new events, `first` is `last` + 1.
    """

    type: str
    execution_id: int
    first: int
    last: int
    started: list[TaskStarted]


def execution_changed_message(
    execution_id: int, first: int, last: int, started: Iterable[TaskStarted] = ()
) -> ExecutionChanged:
    """Return the message about the events `first` to `last` of an execution."""
    return ExecutionChanged(
        type="execution.changed",
        execution_id=execution_id,
        first=first,
        last=last,
        started=list(started),
    )


class HoldActivity(TypedDict):
    """A user claimed, released, opened or left a hold; pages read who it was.

    `viewer_id` is the user who opened or left it, 0 for a claim: pages show other viewers only.
    """

    type: str
    execution_id: int
    hold_id: str
    viewer_id: int


def hold_activity(execution_id: int, hold_id: str, viewer_id: int = 0) -> HoldActivity:
    """Return the message about claims and viewers of a hold."""
    return HoldActivity(
        type="hold.activity", execution_id=execution_id, hold_id=hold_id, viewer_id=viewer_id
    )
