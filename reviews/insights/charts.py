"""Geometry of charts: lines over days and bars per row, which templates draw as SVG.

Pure.  Axes begin at zero; colour comes from classes, so no inline style is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext as _

from reviews.components.number_formatting import percent

WIDTH: Final = 640
HEIGHT: Final = 220
LEFT: Final = 64
RIGHT: Final = 28
TOP: Final = 12
BOTTOM: Final = 28
#: Tick steps, times a power of ten.
_STEPS: Final = (1, 2, 5, 10)
_TIMES: Final = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 28800, 86400, 172800)
_MAX_LABELS: Final = 7


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a line: position, text and link ("" for none)."""

    x: float
    y: float
    words: str
    href: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line; `path` has a gap for each missing value."""

    name: str
    kind: str
    path: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines over the same days, with both axes."""

    lines: tuple[Line, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    base: int = HEIGHT - BOTTOM

    @property
    def legend(self) -> tuple[tuple[str, str], ...]:
        """The legend as (kind, text); empty for a single line."""
        keys = tuple((line.kind, line.name) for line in self.lines)
        return keys if len(keys) > 1 else ()


@dataclass(frozen=True, slots=True)
class Series:
    """The values of one line (None for missing), and their links."""

    name: str
    kind: str
    values: Sequence[float | None]
    hrefs: Sequence[str] = ()


def line_chart(
    labels: Sequence[str],
    series: Sequence[Series],
    *,
    words: Callable[[float], str],
    is_time: bool = False,
) -> LineChart:
    """Lay out a chart of `series` over `labels`; `words` formats a value, seconds if `is_time`."""
    highest = max(
        (value for each in series for value in each.values if value is not None), default=0
    )
    ticks = _ticks(highest, is_time=is_time)
    top = ticks[-1] or 1
    xs = [_x(index, len(labels)) for index in range(len(labels))]
    every = -(-len(labels) // _MAX_LABELS) or 1
    return LineChart(
        lines=tuple(_line(each, xs, labels, top, words) for each in series),
        across=tuple(
            Tick(x, label)
            for index, (x, label) in enumerate(zip(xs, labels, strict=True))
            if (len(labels) - 1 - index) % every == 0
        ),
        up=tuple(Tick(_y(value, top), words(value)) for value in ticks),
    )


def _ticks(highest: float, *, is_time: bool) -> list[float]:
    """Return at most four steps from zero to at least `highest`."""
    if highest <= 0:
        return [0, 1]
    step = _time_step(highest / 4) if is_time else _step(highest / 4)
    count = int(-(-highest // step))
    return [step * number for number in range(count + 1)]


def _step(least: float) -> float:
    power = 1
    while power * 10 < least:
        power *= 10
    return next(step * power for step in _STEPS if step * power >= least)


def _time_step(least: float) -> float:
    found = next((step for step in _TIMES if step >= least), None)
    return found if found is not None else 86400 * _step(least / 86400)


def _x(index: int, count: int) -> float:
    room = WIDTH - LEFT - RIGHT
    return round(LEFT + (room * index / (count - 1) if count > 1 else room / 2), 1)


def _y(value: float, top: float) -> float:
    return round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top), 1)


def _line(
    series: Series,
    xs: Sequence[float],
    labels: Sequence[str],
    top: float,
    words: Callable[[float], str],
) -> Line:
    hrefs = series.hrefs or ("",) * len(xs)
    path, pen_up = [], True
    points = []
    for x, value, label, href in zip(xs, series.values, labels, hrefs, strict=True):
        if value is None:
            pen_up = True
            continue
        y = _y(value, top)
        path.append(f"{'M' if pen_up else 'L'}{x} {y}")
        pen_up = False
        points.append(Point(x, y, f"{label}: {series.name} {words(value)}", href))
    return Line(series.name, series.kind, " ".join(path), tuple(points))


# --- shares ---------------------------------------------------------------------------------------

BAR: Final = 560


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a bar, in px from its left end."""

    x: float
    width: float
    kind: str
    words: str
    href: str


def shares(parts: Sequence[tuple[str, str, int, str]], *, of: int, most: int) -> tuple[Part, ...]:
    """Lay out the parts of a bar from (kind, name, count, href).

    `of` is the total of this bar, `most` that of the longest bar.  Parts are at least 2 px wide.
    """
    made, x = [], 0.0
    for kind, name, count, href in parts:
        if not count:
            continue
        width = max(2.0, round(BAR * count / max(most, 1), 1))
        params = {"name": name, "count": count, "all": of, "share": percent(count / of)}
        words = _("%(name)s: %(count)s of %(all)s (%(share)s)") % params
        made.append(Part(x, width, kind, words, href))
        x = round(x + width, 1)
    return tuple(made)
