"""Geometry of the SVG of one tool and its neighbours: boxes and curves with fixed coordinates.

There are two layouts: a wide one with predecessors on the left and successors on the right, and a
narrow one for phones from top to bottom. The template prints them as SVG; classes give the
colours, so the page needs no inline style.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.formats import number_format
from django.utils.translation import gettext as _

BOX = 48
GAP = 12
WIDE = 236
BETWEEN = 64
NARROW = 340
INDENT = 44
HEAD = 26
_TIMES = "\N{MULTIPLICATION SIGN}"
_CHARACTER_WIDTH = 7.3
_MIN_STROKE, _MAX_STROKE = 1.25, 6.0


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A tool at the other end of an edge, with the statistics of the edge.

    ``weight`` is count times confidence, as PageRank counts it; ``rank`` is its PageRank in
    multiples of the average tool's.
    """

    name: str
    count: int
    confidence: float
    rank: float
    href: str = ""

    @property
    def weight(self) -> float:
        """Weight of the edge in PageRank."""
        return self.count * self.confidence

    @property
    def caption(self) -> str:
        """``12x · confidence 0.90 · rank 1.30x``, with multiplication signs."""
        params = {
            "count": f"{self.count}{_TIMES}",
            "confidence": _number(self.confidence),
            "rank": f"{_number(self.rank)}{_TIMES}",
        }
        return _("%(count)s · confidence %(confidence)s · rank %(rank)s") % params


@dataclass(frozen=True, slots=True)
class Box:
    """A box: corner and width in px, the shortened name, the full name, a second line."""

    x: float
    y: float
    width: int
    label: str
    name: str
    caption: str
    href: str = ""
    centre: bool = False


@dataclass(frozen=True, slots=True)
class Curve:
    """A line to or from the tool; ``stroke`` is its width in px, ``arrow`` a closed path."""

    path: str
    arrow: str
    stroke: float


@dataclass(frozen=True, slots=True)
class Heading:
    """Text above a group of boxes."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """One layout, ``width`` by ``height`` px."""

    kind: str
    width: float
    height: float
    boxes: tuple[Box, ...]
    curves: tuple[Curve, ...]
    headings: tuple[Heading, ...]


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """A tool and its strongest neighbours; ``more_*`` count the neighbours that are not shown."""

    name: str
    rank: float
    before: tuple[Neighbour, ...] = ()
    after: tuple[Neighbour, ...] = ()
    more_before: int = 0
    more_after: int = 0

    @property
    def caption(self) -> str:
        """Second line of the tool's own box."""
        rank = f"{_number(self.rank)}{_TIMES}"
        return _("PageRank %(rank)s the average") % {"rank": rank}

    @property
    def description(self) -> str:
        """Text alternative of the graphic."""
        before = ", ".join(each.name for each in self.before) or _("no tool")
        after = ", ".join(each.name for each in self.after) or _("no tool")
        params = {"name": self.name, "before": before, "after": after}
        return _("%(name)s: %(before)s came before it, %(after)s after it.") % params

    @property
    def drawings(self) -> tuple[Drawing, Drawing]:
        """The wide and the narrow layout."""
        return wide(self), narrow(self)


def _number(value: float) -> str:
    """Format with two decimal places and the decimal mark of the language."""
    return str(number_format(round(value, 2), 2))


def wide(around: Neighbourhood) -> Drawing:
    """Lay out predecessors, the tool and successors from left to right."""
    rows = max(len(around.before), len(around.after), 1)
    height = HEAD + rows * BOX + (rows - 1) * GAP + 4
    middle = HEAD + (height - HEAD - 4) / 2
    at = (2.0, 2.0 + WIDE + BETWEEN, 2.0 + 2 * (WIDE + BETWEEN))
    centre = _centre_box(around, at[1], middle - BOX / 2, WIDE)
    most = _max_weight(around)
    boxes, curves = [centre], []
    for neighbour, y in zip(around.before, _stacked_tops(len(around.before), middle), strict=True):
        boxes.append(_box(neighbour, at[0], y, WIDE))
        start, end = at[0] + WIDE, at[1] - 7
        curves.append(_curve_across(start, y + BOX / 2, end, middle, _stroke(neighbour, most)))
    for neighbour, y in zip(around.after, _stacked_tops(len(around.after), middle), strict=True):
        boxes.append(_box(neighbour, at[2], y, WIDE))
        start, end = at[1] + WIDE, at[2] - 7
        curves.append(_curve_across(start, middle, end, y + BOX / 2, _stroke(neighbour, most)))
    headings = (
        Heading(at[0], 14, _heading(_("Came before"), around.before, around.more_before)),
        Heading(at[2], 14, _heading(_("Came after"), around.after, around.more_after)),
    )
    width = at[2] + WIDE + 2
    return Drawing("wide", width, height, tuple(boxes), tuple(curves), headings)


def narrow(around: Neighbourhood) -> Drawing:
    """Lay out predecessors, the tool and successors from top to bottom, with lines on the left."""
    most, width = _max_weight(around), NARROW - INDENT
    step = BOX + GAP
    top = HEAD + len(around.before) * step + GAP
    below = top + BOX + GAP + HEAD
    boxes, curves = [_centre_box(around, 2, top, NARROW - 4)], []
    for at, neighbour in enumerate(around.before):
        boxes.append(_box(neighbour, INDENT, HEAD + at * step, width))
        curves.append(_curve_down(HEAD + at * step + BOX / 2, top, _stroke(neighbour, most)))
    for at, neighbour in enumerate(around.after):
        boxes.append(_box(neighbour, INDENT, below + at * step, width))
        curves.append(_curve_into(top + BOX, below + at * step + BOX / 2, _stroke(neighbour, most)))
    headings = (
        Heading(INDENT, 14, _heading(_("Came before"), around.before, around.more_before)),
        Heading(INDENT, below - 12, _heading(_("Came after"), around.after, around.more_after)),
    )
    height = below + len(around.after) * step
    return Drawing("narrow", NARROW, height, tuple(boxes), tuple(curves), headings)


def _curve_down(y: float, to_y: float, stroke: float) -> Curve:
    """Draw a line from a box's left side down to the tool."""
    path = f"M{INDENT} {y:g} H24 Q16 {y:g} 16 {y + 8:g} V{to_y - 7:g}"
    return Curve(path, f"M11 {to_y - 8:g} H21 L16 {to_y:g} Z", stroke)


def _curve_into(y: float, to_y: float, stroke: float) -> Curve:
    """Draw a line from the tool down and into a box's left side."""
    path = f"M16 {y:g} V{to_y - 8:g} Q16 {to_y:g} 24 {to_y:g} H{INDENT - 7}"
    arrow = f"M{INDENT - 8} {to_y - 5:g} V{to_y + 5:g} L{INDENT} {to_y:g} Z"
    return Curve(path, arrow, stroke)


def _centre_box(around: Neighbourhood, x: float, y: float, width: int) -> Box:
    return Box(x, y, width, *_labels(around.name, width), around.caption, centre=True)


def _heading(title: str, shown: Sequence[Neighbour], more: int) -> str:
    if not shown:
        return _("%(heading)s: nothing so far") % {"heading": title}
    if not more:
        return title
    params = {"heading": title, "shown": len(shown), "all": len(shown) + more}
    return _("%(heading)s (%(shown)s of %(all)s)") % params


def _stacked_tops(count: int, middle: float) -> list[float]:
    """Return the tops of ``count`` boxes centred vertically on ``middle``."""
    height = count * BOX + (count - 1) * GAP
    return [middle - height / 2 + at * (BOX + GAP) for at in range(count)]


def _box(neighbour: Neighbour, x: float, y: float, width: int) -> Box:
    return Box(x, y, width, *_labels(neighbour.name, width), neighbour.caption, neighbour.href)


def _labels(name: str, width: int) -> tuple[str, str]:
    """Return the name shortened from the left to fit, and the full name."""
    fits = int((width - 24) / _CHARACTER_WIDTH)
    return (name if len(name) <= fits else f"…{name[-(fits - 1) :]}"), name


def _max_weight(around: Neighbourhood) -> float:
    return max((each.weight for each in (*around.before, *around.after)), default=1.0)


def _stroke(neighbour: Neighbour, most: float) -> float:
    return round(_MIN_STROKE + (_MAX_STROKE - _MIN_STROKE) * neighbour.weight / most, 2)


def _curve_across(x: float, y: float, to_x: float, to_y: float, stroke: float) -> Curve:
    half = (x + to_x) / 2
    path = f"M{x:g} {y:g} C{half:g} {y:g} {half:g} {to_y:g} {to_x:g} {to_y:g}"
    arrow = f"M{to_x - 1:g} {to_y - 5:g} V{to_y + 5:g} L{to_x + 7:g} {to_y:g} Z"
    return Curve(path, arrow, stroke)
