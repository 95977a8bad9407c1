"""What processes tell each other over the channel layer: news of ids and numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from workflows.realtime.task_started import TaskStarted

#: Everybody who watches the queue.
REVIEWS = "reviews"


def execution_group(execution_id: int) -> str:
    """The group of those who watch one execution."""
    return f"execution.{execution_id}"


def person_group(user_id: int) -> str:
    """The group of one person's open pages."""
    return f"person.{user_id}"


class Rang(TypedDict):
    """Somebody's notices changed; their own pages read how."""

    type: str


def rang() -> Rang:
    """The news that there is something in the bell, or less."""
    return Rang(type="person.rang")


class Moved(TypedDict):
    """An execution moved: events `first` to `last` are in the journal.  No task data travels.

    `started`: tasks that run and take a while; then `first` may be `last` + 1.
    """

    type: str
    execution_id: int
    first: int
    last: int
    started: list[TaskStarted]


def moved(execution_id: int, first: int, last: int, started: Iterable[TaskStarted] = ()) -> Moved:
    """The news that `execution_id` recorded the events `first` to `last`."""
    return Moved(
        type="execution.moved",
        execution_id=execution_id,
        first=first,
        last=last,
        started=list(started),
    )


class Touched(TypedDict):
    """Somebody claimed a hold, gave it back, opened it or left it; pages read who it was."""

    type: str
    execution_id: int
    hold_id: str


def hold_touched(execution_id: int, hold_id: str) -> Touched:
    """The news that people came to a hold or left it."""
    return Touched(type="hold.touched", execution_id=execution_id, hold_id=hold_id)
