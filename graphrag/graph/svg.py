"""The picture of the graph around one tool: boxes and curves with fixed coordinates. Pure.

Two layouts of the same: a wide one with what came before on the left and what came after on the
right, and a narrow one for a phone, top to bottom. The template prints them as SVG; colours come
from classes, so no inline style is needed.
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
_CHARACTER = 7.3
_LEAST, _MOST = 1.25, 6.0


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A tool on the other end of an edge, with what was observed of it.

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
        """What the edge weighs in PageRank."""
        return self.count * self.confidence

    @property
    def words(self) -> str:
        """``12x, confidence 0.90, PageRank 1.30x``, with real signs."""
        told = {
            "count": f"{self.count}{_TIMES}",
            "confidence": _number(self.confidence),
            "rank": f"{_number(self.rank)}{_TIMES}",
        }
        return _("%(count)s · confidence %(confidence)s · rank %(rank)s") % told


@dataclass(frozen=True, slots=True)
class Box:
    """A box: its corner and width in px, the name as it fits, the full name, a second line."""

    x: float
    y: float
    width: int
    label: str
    name: str
    words: str
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
    """Words above a group of boxes."""

    x: float
    y: float
    words: str


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
class Around:
    """A tool and its strongest neighbours; ``more_*`` were left out of the picture."""

    name: str
    rank: float
    before: tuple[Neighbour, ...] = ()
    after: tuple[Neighbour, ...] = ()
    more_before: int = 0
    more_after: int = 0

    @property
    def words(self) -> str:
        """The second line of the tool's own box."""
        rank = f"{_number(self.rank)}{_TIMES}"
        return _("PageRank %(rank)s the average") % {"rank": rank}

    @property
    def description(self) -> str:
        """A sentence that says what the picture shows."""
        before = ", ".join(each.name for each in self.before) or _("no tool")
        after = ", ".join(each.name for each in self.after) or _("no tool")
        told = {"name": self.name, "before": before, "after": after}
        return _("%(name)s: %(before)s came before it, %(after)s after it.") % told

    @property
    def drawings(self) -> tuple[Drawing, Drawing]:
        """The wide and the narrow layout."""
        return wide(self), narrow(self)


def _number(value: float) -> str:
    """Two places, with the decimal mark of the language."""
    return str(number_format(round(value, 2), 2))


def wide(around: Around) -> Drawing:
    """What came before, the tool, what came after, from left to right."""
    rows = max(len(around.before), len(around.after), 1)
    height = HEAD + rows * BOX + (rows - 1) * GAP + 4
    middle = HEAD + (height - HEAD - 4) / 2
    at = (2.0, 2.0 + WIDE + BETWEEN, 2.0 + 2 * (WIDE + BETWEEN))
    centre = _centre(around, at[1], middle - BOX / 2, WIDE)
    most = _heaviest(around)
    boxes, curves = [centre], []
    for neighbour, y in zip(around.before, _stack(len(around.before), middle), strict=True):
        boxes.append(_box(neighbour, at[0], y, WIDE))
        start, end = at[0] + WIDE, at[1] - 7
        curves.append(_across(start, y + BOX / 2, end, middle, _stroke(neighbour, most)))
    for neighbour, y in zip(around.after, _stack(len(around.after), middle), strict=True):
        boxes.append(_box(neighbour, at[2], y, WIDE))
        start, end = at[1] + WIDE, at[2] - 7
        curves.append(_across(start, middle, end, y + BOX / 2, _stroke(neighbour, most)))
    headings = (
        Heading(at[0], 14, _heading(_("Came before"), around.before, around.more_before)),
        Heading(at[2], 14, _heading(_("Came after"), around.after, around.more_after)),
    )
    width = at[2] + WIDE + 2
    return Drawing("wide", width, height, tuple(boxes), tuple(curves), headings)


def narrow(around: Around) -> Drawing:
    """The same from top to bottom; the lines run along the left side."""
    most, width = _heaviest(around), NARROW - INDENT
    step = BOX + GAP
    top = HEAD + len(around.before) * step + GAP
    below = top + BOX + GAP + HEAD
    boxes, curves = [_centre(around, 2, top, NARROW - 4)], []
    for at, neighbour in enumerate(around.before):
        boxes.append(_box(neighbour, INDENT, HEAD + at * step, width))
        curves.append(_down(HEAD + at * step + BOX / 2, top, _stroke(neighbour, most)))
    for at, neighbour in enumerate(around.after):
        boxes.append(_box(neighbour, INDENT, below + at * step, width))
        curves.append(_in(top + BOX, below + at * step + BOX / 2, _stroke(neighbour, most)))
    headings = (
        Heading(INDENT, 14, _heading(_("Came before"), around.before, around.more_before)),
        Heading(INDENT, below - 12, _heading(_("Came after"), around.after, around.more_after)),
    )
    height = below + len(around.after) * step
    return Drawing("narrow", NARROW, height, tuple(boxes), tuple(curves), headings)


def _down(y: float, to_y: float, stroke: float) -> Curve:
    """From a box's left side down to the tool."""
    path = f"M{INDENT} {y:g} H24 Q16 {y:g} 16 {y + 8:g} V{to_y - 7:g}"
    return Curve(path, f"M11 {to_y - 8:g} H21 L16 {to_y:g} Z", stroke)


def _in(y: float, to_y: float, stroke: float) -> Curve:
    """From the tool down and into a box's left side."""
    path = f"M16 {y:g} V{to_y - 8:g} Q16 {to_y:g} 24 {to_y:g} H{INDENT - 7}"
    arrow = f"M{INDENT - 8} {to_y - 5:g} V{to_y + 5:g} L{INDENT} {to_y:g} Z"
    return Curve(path, arrow, stroke)


def _centre(around: Around, x: float, y: float, width: int) -> Box:
    return Box(x, y, width, *_named(around.name, width), around.words, centre=True)


def _heading(words: str, shown: Sequence[Neighbour], more: int) -> str:
    if not shown:
        return _("%(heading)s: nothing so far") % {"heading": words}
    if not more:
        return words
    told = {"heading": words, "shown": len(shown), "all": len(shown) + more}
    return _("%(heading)s (%(shown)s of %(all)s)") % told


def _stack(count: int, middle: float) -> list[float]:
    """Tops of ``count`` boxes that stand centred on ``middle``."""
    height = count * BOX + (count - 1) * GAP
    return [middle - height / 2 + at * (BOX + GAP) for at in range(count)]


def _box(neighbour: Neighbour, x: float, y: float, width: int) -> Box:
    return Box(x, y, width, *_named(neighbour.name, width), neighbour.words, neighbour.href)


def _named(name: str, width: int) -> tuple[str, str]:
    """The name as it fits, its end kept, and the full name."""
    fits = int((width - 24) / _CHARACTER)
    return (name if len(name) <= fits else f"…{name[-(fits - 1) :]}"), name


def _heaviest(around: Around) -> float:
    return max((each.weight for each in (*around.before, *around.after)), default=1.0)


def _stroke(neighbour: Neighbour, most: float) -> float:
    return round(_LEAST + (_MOST - _LEAST) * neighbour.weight / most, 2)


def _across(x: float, y: float, to_x: float, to_y: float, stroke: float) -> Curve:
    half = (x + to_x) / 2
    path = f"M{x:g} {y:g} C{half:g} {y:g} {half:g} {to_y:g} {to_x:g} {to_y:g}"
    arrow = f"M{to_x - 1:g} {to_y - 5:g} V{to_y + 5:g} L{to_x + 7:g} {to_y:g} Z"
    return Curve(path, arrow, stroke)
