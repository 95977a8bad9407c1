"""Layout of a plan as a diagram: layers of tasks become boxes and curves.

Pure.  `layout()` returns a `Picture` that the template `reviews/components/_dag.html` renders as
SVG; CSS classes give the colours, so no inline style is needed.

Layers run from left to right.  An edge that skips a layer gets its own lane there, so that it never
passes behind a box, and each layer is ordered by the mean position of its neighbours (barycenter
heuristic) to reduce crossings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from django.utils.translation import gettext as _

from reviews.components.number_formatting import counted, grouped

NODE_WIDTH: Final = 160
NODE_HEIGHT: Final = 44
LANE_HEIGHT: Final = 12
GAP_X: Final = 44
GAP_Y: Final = 16
MARGIN: Final = 8
HEAD: Final = 28
#: A longer layer shows its most relevant tasks and one summary box.
MAX_ROWS: Final = 8
LABEL_LENGTH: Final = 16
SWEEPS: Final = 4
#: The text alternative names up to this many tasks that wait.
MAX_NAMES: Final = 8

_FINISHED: Final = ("SUCCEEDED", "FAILED", "SKIPPED", "REJECTED")
#: Priority of tasks in a long layer; smaller values stay visible.
_WEIGHT: Final[Mapping[str, int]] = {"FAILED": 1, "REJECTED": 1, "RUNNING": 2, "PENDING": 3}


@dataclass(frozen=True, slots=True)
class DagTask:
    """One task to draw.

    `status` is a task status, or empty in a plan that is not running; `depends_on` holds ids of
    earlier tasks; `note` is a short text such as `1.2 s`; `held` draws a ring around the box;
    `speculated` dashes it; `href` makes it a link.
    """

    id: str
    status: str = "PENDING"
    depends_on: tuple[str, ...] = ()
    note: str = ""
    held: bool = False
    speculated: bool = False
    href: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A box: its top left corner in px, text and state."""

    id: str
    x: float
    y: float
    label: str
    full_label: str
    status: str
    note: str
    held: bool
    speculated: bool
    href: str
    sums_up: int = 0
    width: int = NODE_WIDTH
    height: int = NODE_HEIGHT


@dataclass(frozen=True, slots=True)
class Edge:
    """A curve from one box to another; `done` if its source succeeded."""

    source: str
    target: str
    path: str
    done: bool


@dataclass(frozen=True, slots=True)
class LayerHead:
    """The heading of a column: `Layer 2`, `7 of 12`."""

    x: float
    title: str
    progress: str
    current: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """The diagram, `width` by `height` px, and a text alternative."""

    width: float
    height: float
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    heads: tuple[LayerHead, ...]
    description: str


@dataclass(slots=True)
class _Slot:
    """A position in a column: a task's box, or the lane of a passing edge."""

    key: str
    layer: int
    task: DagTask | None = None
    sums_up: int = 0
    top: float = 0.0
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)

    @property
    def height(self) -> int:
        return LANE_HEIGHT if self.task is None else NODE_HEIGHT

    @property
    def middle(self) -> float:
        return self.top + self.height / 2


def layout(
    layers: Sequence[Sequence[DagTask]],
    *,
    current: int | None = None,
    max_rows: int = MAX_ROWS,
    first: int = 0,
) -> Picture:
    """Lay out the tasks of `layers` and their edges.

    Tasks depend only on earlier layers; dependencies on unknown ids are ignored.  `current` is the
    number of the layer to mark; `first` is the number of the first one in `layers`, where these
    are a part of a longer plan.
    """
    shown = [_shorten(layer, max_rows) for layer in layers]
    aliases = {name: key for column in shown for key, _, names in column for name in names}
    columns = [
        [_slot(index, key, task, names) for key, task, names in column]
        for index, column in enumerate(shown)
    ]
    slots = {slot.key: slot for column in columns for slot in column}
    routes = _routes(layers, aliases, slots, columns)
    _order(columns, slots)
    height = _stack(columns)
    done = {task.id for layer in layers for task in layer if task.status == "SUCCEEDED"}
    width = 2 * MARGIN + len(columns) * NODE_WIDTH + max(0, len(columns) - 1) * GAP_X
    return Picture(
        width=max(width, 2 * MARGIN),
        height=height,
        nodes=tuple(_node(slot) for column in columns for slot in column if slot.task is not None),
        edges=tuple(_edge(route, slots, done) for route in routes),
        heads=tuple(_head(index, layer, first, current) for index, layer in enumerate(layers)),
        description=_describe(layers),
    )


def _slot(layer: int, key: str, task: DagTask, names: tuple[str, ...]) -> _Slot:
    return _Slot(key=key, layer=layer, task=task, sums_up=len(names) if len(names) > 1 else 0)


def _shorten(layer: Sequence[DagTask], max_rows: int) -> list[tuple[str, DagTask, tuple[str, ...]]]:
    """Return (key, task, represented ids) per box; a long layer ends with a summary box."""
    if len(layer) <= max_rows:
        return [(task.id, task, (task.id,)) for task in layer]
    matters = sorted(range(len(layer)), key=lambda i: (_weight(layer[i]), i))
    kept = set(matters[: max_rows - 1])
    rest = [layer[i] for i in range(len(layer)) if i not in kept]
    one_state = {task.status for task in rest}
    summary = DagTask(
        id=f"+{rest[0].id}",
        status=one_state.pop() if len(one_state) == 1 else "PENDING",
        note=_("%(n)s done") % {"n": sum(task.status == "SUCCEEDED" for task in rest)},
        href=rest[0].href,
    )
    drawn = [(layer[i].id, layer[i], (layer[i].id,)) for i in sorted(kept)]
    return [*drawn, (summary.id, summary, tuple(task.id for task in rest))]


def _weight(task: DagTask) -> int:
    return 0 if task.held else _WEIGHT.get(task.status, 4)


def _routes(
    layers: Sequence[Sequence[DagTask]],
    aliases: Mapping[str, str],
    slots: dict[str, _Slot],
    columns: list[list[_Slot]],
) -> list[list[str]]:
    """Return the slots of each edge, with a new lane in every layer that it skips."""
    wanted = {
        (aliases[name], aliases[task.id]): None
        for layer in layers
        for task in layer
        for name in task.depends_on
        if name in aliases and slots[aliases[name]].layer < slots[aliases[task.id]].layer
    }
    routes = []
    for source, target in wanted:
        route = [source]
        for layer in range(slots[source].layer + 1, slots[target].layer):
            lane = _Slot(key=f"{source}→{target}@{layer}", layer=layer)
            slots[lane.key] = lane
            columns[layer].append(lane)
            route.append(lane.key)
        route.append(target)
        for left, right in pairwise(route):
            slots[left].after.append(right)
            slots[right].before.append(left)
        routes.append(route)
    return routes


def _order(columns: list[list[_Slot]], slots: Mapping[str, _Slot]) -> None:
    """Sort each column by the mean position of its neighbours, in alternating sweeps."""
    place = {slot.key: float(i) for column in columns for i, slot in enumerate(column)}
    for sweep in range(SWEEPS):
        forth = sweep % 2 == 0
        for column in columns if forth else reversed(columns):
            wish = {
                slot.key: _mean(slot.before if forth else slot.after, place, slot.key)
                for slot in column
            }
            column.sort(key=_by(wish))
            place.update({slot.key: float(i) for i, slot in enumerate(column)})


def _by(wish: Mapping[str, float]) -> Callable[[_Slot], float]:
    return lambda slot: wish[slot.key]


def _mean(keys: Iterable[str], place: Mapping[str, float], own: str) -> float:
    places = [place[key] for key in keys]
    return sum(places) / len(places) if places else place[own]


def _stack(columns: list[list[_Slot]]) -> float:
    """Set the top of every slot, with centred columns; return the height of the picture."""
    sums = [
        sum(slot.height for slot in column) + GAP_Y * max(0, len(column) - 1) for column in columns
    ]
    tallest = max(sums, default=0)
    for column, height in zip(columns, sums, strict=True):
        top = HEAD + MARGIN + (tallest - height) / 2
        for slot in column:
            slot.top = top
            top += slot.height + GAP_Y
    return HEAD + 2 * MARGIN + tallest


def _left(layer: int) -> float:
    return MARGIN + layer * (NODE_WIDTH + GAP_X)


def _node(slot: _Slot) -> Node:
    task = slot.task
    if task is None:
        raise ValueError(f"{slot.key} is a lane, not a task")
    label = _("%(n)s more") % {"n": slot.sums_up} if slot.sums_up else task.id
    return Node(
        id=slot.key,
        x=_left(slot.layer),
        y=slot.top,
        label=label if len(label) <= LABEL_LENGTH else f"{label[: LABEL_LENGTH - 1]}…",
        full_label=label,
        status=task.status,
        note=task.note,
        held=task.held,
        speculated=task.speculated,
        href=task.href,
        sums_up=slot.sums_up,
    )


def _edge(route: Sequence[str], slots: Mapping[str, _Slot], done: set[str]) -> Edge:
    first = slots[route[0]]
    path = f"M{_num(_left(first.layer) + NODE_WIDTH)} {_num(first.middle)}"
    x, y = _left(first.layer) + NODE_WIDTH, first.middle
    for key in route[1:]:
        slot = slots[key]
        to_x, to_y = _left(slot.layer), slot.middle
        bend = (to_x - x) / 2
        curve = (x + bend, y, to_x - bend, to_y, to_x, to_y)
        path += "C" + " ".join(_num(value) for value in curve)
        x, y = to_x, to_y
        if slot.task is None:
            x += NODE_WIDTH
            path += f"H{_num(x)}"
    return Edge(source=route[0], target=route[-1], path=path, done=route[0] in done)


def _num(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _head(index: int, layer: Sequence[DagTask], first: int, current: int | None) -> LayerHead:
    settled = sum(task.status in _FINISHED for task in layer)
    started = settled or any(task.status == "RUNNING" for task in layer)
    progress = ""
    if len(layer) > 1 and started:
        progress = _("%(done)s of %(total)s") % {"done": settled, "total": len(layer)}
    return LayerHead(
        x=_left(index),
        title=_("Layer %(layer)s") % {"layer": first + index + 1},
        progress=progress,
        current=first + index == current,
    )


def _describe(layers: Sequence[Sequence[DagTask]]) -> str:
    """Return a text alternative of the diagram."""
    total = sum(len(layer) for layer in layers)
    if not total:
        return _("An empty plan.")
    waiting = [task.id for layer in layers for task in layer if task.held]
    params = {
        "tasks": counted(total, "task"),
        "layers": counted(len(layers), "layer"),
        "names": ", ".join(waiting[:MAX_NAMES]),
    }
    if len(waiting) > MAX_NAMES:
        params["n"] = grouped(len(waiting) - MAX_NAMES)
        return _("%(tasks)s in %(layers)s; %(names)s and %(n)s more waiting for review.") % params
    if waiting:
        return _("%(tasks)s in %(layers)s; %(names)s waiting for review.") % params
    return _("%(tasks)s in %(layers)s.") % params


def with_links(layers: Sequence[Sequence[DagTask]], prefix: str) -> list[list[DagTask]]:
    """Return the layers with each task linked to `prefix` plus its id, such as `#task-a`."""
    return [[replace(task, href=f"{prefix}{task.id}") for task in layer] for layer in layers]
