"""Named points at which a test ends the process, as a power cut would.

Off by default, and then one look at a global.  Armed by the environment:

    HOLDPOINT_CRASH_AT=step.after        dies when it gets there for the first time
    HOLDPOINT_CRASH_AT=step.after:3      dies at the third time

A process that forks per kill calls `arm` in the child instead.  A test inside one process passes an
action of its own, which raises or waits where the real one would die.

| point | where |
|---|---|
| `claim.after` | the lease is taken, no move is made |
| `task.result` | a task has ended, nothing of it is recorded |
| `step.before`, `step.after` | around the one statement that makes a step durable |
| `commands.taken` | queued commands are read, none is applied |
| `rest.before`, `rest.after` | around giving the lease back |
| `command.queued` | a command waits for the boundary, its sender knows nothing yet |
| `command.applied` | a command at rest is recorded, no worker is sent for |
| `enqueue.before`, `enqueue.after` | around handing a job to Redis; before it, all is committed |
| `message.sent` | an e-mail or a post to a chat went out, nothing says so yet |
| `sweep.marked` | lost work is marked as sent for, and not sent |
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
    "command.applied",
    "enqueue.before",
    "enqueue.after",
    "sweep.marked",
    "message.sent",
]
POINTS: frozenset[str] = frozenset(get_args(Point))

VARIABLE = "HOLDPOINT_CRASH_AT"
EXIT_CODE = 137


def die() -> NoReturn:
    """End the process at once: no handlers, no buffers, no goodbye to any server."""
    os._exit(EXIT_CODE)


def parse(text: str) -> tuple[str, int]:
    """`name` or `name:nth` as (name, nth); raises ValueError for what is no such thing."""
    name, colon, count = text.partition(":")
    if name not in POINTS:
        raise ValueError(f"no crash point is called {name!r}; there are: {sorted(POINTS)}")
    nth = int(count) if colon else 1
    if nth < 1:
        raise ValueError(f"{text!r} counts from 1")
    return name, nth


def crashpoint(name: Point) -> None:
    """Here a test may end the process."""
    if _reached is not None:
        _reached(name)


def arm(text: str, action: Callable[[], object] = die) -> None:
    """Call `action` when this process gets to the point for the nth time; see `parse`."""
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
    """Have `reached` called with the name of every point from now on; None switches it off."""
    global _reached
    _reached = reached


_reached: Callable[[str], object] | None = None
if os.environ.get(VARIABLE):
    arm(os.environ[VARIABLE])
