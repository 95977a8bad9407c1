"""Named points at which a test kills the process, to simulate a power failure.

Disabled by default. The environment enables one point:

    HOLDPOINT_CRASH_AT=step.after        exits when the point is first reached
    HOLDPOINT_CRASH_AT=step.after:3      exits when the point is reached for the third time

A test that forks calls `arm` in the child instead. A test within one process passes another action
that raises or waits instead of exiting.

| point | where |
|---|---|
| `claim.after` | the worker has the lease, before the first move |
| `task.result` | a task has ended, before its result is recorded |
| `step.before`, `step.after` | around the one statement that makes a step durable |
| `commands.taken` | queued commands are read, before one is applied |
| `rest.before`, `rest.after` | around the release of the lease |
| `command.queued` | a command is queued, before the sender gets a response |
| `command.applied` | a command is recorded, before a job is enqueued |
| `enqueue.before`, `enqueue.after` | around enqueueing a job in Redis, after the commit |
| `approval.created` | an approval is stored, before its hold opens |
| `gate.sent` | a call of a gate is stored as sent, before it is sent |
| `gate.answered` | a call of a gate is answered, before the answer is stored |
| `message.sent`, `slack_message.sent` | a message is sent, before this is recorded |
| `security_events.sent` | a destination has received a batch, before its cursor moves |
| `retention.erased` | a batch of runs is erased and committed, before the next one |
| `remote.woken` | a run whose remote call has ended is woken, before it is enqueued |
| `sweep.marked` | lost work is marked as dispatched, before it is enqueued |
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Literal, NoReturn, get_args

Point = Literal[
    "claim.after",
    "task.result",
    "step.before",
    "step.after",
    "commands.taken",
    "rest.before",
    "rest.after",
    "command.queued",
    "approval.created",
    "command.applied",
    "enqueue.before",
    "enqueue.after",
    "sweep.marked",
    "remote.woken",
    "message.sent",
    "slack_message.sent",
    "security_events.sent",
    "gate.sent",
    "gate.answered",
    "retention.erased",
]
POINTS: frozenset[str] = frozenset(get_args(Point))

VARIABLE = "HOLDPOINT_CRASH_AT"
EXIT_CODE = 137


def die() -> NoReturn:
    """End the process at once, without exit handlers or flushing of buffers."""
    os._exit(EXIT_CODE)


def parse(text: str) -> tuple[str, int]:
    """Parse `name` or `name:nth` to (name, nth); raise ValueError for other text."""
    name, colon, count = text.partition(":")
    if name not in POINTS:
        raise ValueError(f"no crash point is called {name!r}; there are: {sorted(POINTS)}")
    nth = int(count) if colon else 1
    if nth < 1:
        raise ValueError(f"{text!r} counts from 1")
    return name, nth


def crashpoint(name: Point) -> None:
    """Mark a point at which a test may kill the process."""
    if _reached is not None:
        _reached(name)


def arm(text: str, action: Callable[[], object] = die) -> None:
    """Call `action` when this process reaches the point for the nth time; see `parse`."""
    wanted, left = parse(text)
    lock = threading.Lock()

    def reached(name: str) -> None:
        nonlocal left
        if name != wanted:
            return
        with lock:
            left -= 1
            due = left == 0
        if due:
            action()

    set_observer(reached)


def set_observer(reached: Callable[[str], object] | None) -> None:
    """Call `reached` with the name of every point that is reached; None disables it."""
    global _reached
    _reached = reached


_reached: Callable[[str], object] | None = None
if os.environ.get(VARIABLE):
    arm(os.environ[VARIABLE])
