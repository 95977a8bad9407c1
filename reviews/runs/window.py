"""The part of a long run that its page shows at once: layers, tasks and events.

A short plan is shown whole.  Of a long one the page draws some layers, lists some tasks and loads
the data of a task when it is opened.  The address names another part: `task` is the task at which
the list starts, `since` the first event of the timeline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from reviews.components.dag_svg import MAX_ROWS
from workflows.common.number_parsing import parse_natural_number
from workflows.executions.selectors import events_of
from workflows.models import Execution, ExecutionEvent

#: A plan of up to this many tasks is shown whole, each task with its data.
WHOLE_PLAN: Final = 40
#: Tasks that the page of a longer plan lists at once.
LISTED_TASKS: Final = 25
#: Boxes that a diagram has room for; a longer plan shows the layers around one of them.
DRAWN_BOXES: Final = 50
#: Events that a page shows at once, and the newest ones that the page of a long plan starts with.
SHOWN_EVENTS: Final = 100
NEWEST_EVENTS: Final = 30
#: Characters of an event's details on the page of a long plan; longer ones load when opened.
INLINE_DETAILS: Final = 1000
#: Tasks of a long plan that are open at once and keep their data when the page is refreshed.
OPEN_TASKS: Final = 25
#: Layers of the part drawn before that the next part repeats.
_OVERLAP: Final = 1


@dataclass(frozen=True, slots=True)
class RunQuery:
    """What the address of a run's page asks for; "" and 0 for what it leaves open.

    `open` are the tasks that are open in the browser.  With `part`, "task" or "event", only the
    data of `task`, or of the event `since`, is wanted; with "output", whether remote tasks have
    printed something new.
    """

    task: str = ""
    since: int = 0
    open: frozenset[str] = frozenset()
    part: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> RunQuery:
        """Parse a query string; values that name nothing are ignored."""
        opened = query.get("open", "").replace("\0", "").split(",")[:OPEN_TASKS]
        return cls(
            task=query.get("task", "").replace("\0", ""),
            since=parse_natural_number(query.get("since", ""), digits=9) or 0,
            open=frozenset(filter(None, opened)),
            part=query.get("part", ""),
        )

    def address(self, *, task: str = "", since: int = 0) -> str:
        """Return the query string of the page with another first task or event, with its `?`."""
        params = {"task": task or self.task, "since": since or self.since}
        return "?" + urlencode({name: value for name, value in params.items() if value})


NO_QUERY: Final = RunQuery()


@dataclass(frozen=True, slots=True)
class TaskWindow:
    """Positions in the order of the plan: of the listed tasks, and of the layers that are drawn."""

    is_whole: bool
    start: int
    end: int
    first_layer: int
    last_layer: int


def task_window(layers: Sequence[Sequence[str]], *, task: str, current: int) -> TaskWindow:
    """Return what the page shows of a plan.

    The list starts with `task`; if the plan has no such task, with the first one of layer
    `current`.
    """
    order = [name for layer in layers for name in layer]
    if len(order) <= WHOLE_PLAN:
        return TaskWindow(
            is_whole=True, start=0, end=len(order), first_layer=0, last_layer=len(layers)
        )
    place = {name: position for position, name in enumerate(order)}
    start = place.get(task, place[layers[min(current, len(layers) - 1)][0]])
    focus = next(n for n, layer in enumerate(layers) if order[start] in layer)
    first, last = _drawn(layers, focus)
    end = min(start + LISTED_TASKS, len(order))
    return TaskWindow(is_whole=False, start=start, end=end, first_layer=first, last_layer=last)


def _drawn(layers: Sequence[Sequence[str]], focus: int) -> tuple[int, int]:
    """Return the range of layers around `focus` that the diagram has room for."""
    boxes = [min(len(layer), MAX_ROWS) for layer in layers]
    first = last = max(0, focus - _OVERLAP)
    room = DRAWN_BOXES
    while last < len(layers) and boxes[last] <= room:
        room -= boxes[last]
        last += 1
    while first > 0 and boxes[first - 1] <= room:
        room -= boxes[first - 1]
        first -= 1
    return first, last


@dataclass(frozen=True, slots=True)
class EventWindow:
    """The events that a timeline shows, and how many are earlier and later.

    `layer` is the layer that the first one belongs to, None before the first layer.
    """

    events: tuple[ExecutionEvent, ...]
    earlier: int
    later: int
    layer: int | None

    @property
    def earlier_since(self) -> int:
        """The first event of the part before this one."""
        return max(1, self.events[0].seq - SHOWN_EVENTS) if self.events else 0


def event_window(execution: Execution, *, since: int, newest: int) -> EventWindow:
    """Return the events from `since` on, or the `newest` ones if there is none or `since` is 0."""
    rows = events_of(execution)
    events = tuple(rows.filter(seq__gte=since)[:SHOWN_EVENTS]) if since else ()
    if not events:
        events = tuple(reversed(rows.order_by("-seq")[:newest]))
    if not events:
        return EventWindow((), 0, 0, None)
    later = rows.filter(seq__gt=events[-1].seq).count() if since else 0
    if events[0].seq == 1:
        return EventWindow(events, 0, later, None)
    before = rows.filter(seq__lt=events[0].seq)
    begun = before.filter(kind__in=("layer_started", "layer_skipped")).last()
    layer = int(begun.payload["layer"]) if begun is not None else None
    return EventWindow(events, before.count(), later, layer)
