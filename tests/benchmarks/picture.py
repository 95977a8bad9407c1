"""The ratios as bars, in an SVG that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from tests.benchmarks.figures import Figure, number

WIDTH, LABELS, RIGHT = 960, 420, 130
ROW, BAR, TOP = 30, 14, 78
GOOD, BAD, PLAIN = "#1b7f5c", "#b3261e", "#6b7a90"
INK, QUIET, LINE = "#1f2733", "#5d6878", "#d9dee6"
#: Ends of the scale: a tenth of the baseline, ten times the baseline.
LOWEST, HIGHEST = 0.1, 10.0


def draw(figures: Sequence[Figure], path: Path) -> None:
    """Write the picture of every figure that has a ratio."""
    rows = [figure for figure in figures if figure.ratio is not None]
    height = TOP + ROW * len(rows) + 24
    lines = [*_head(height), *_scale(height)]
    for place, figure in enumerate(rows):
        lines += _row(figure, TOP + ROW * place)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*lines, "</svg>"]) + "\n")


def _head(height: int) -> list[str]:
    title = "Measured beside its baseline, in one run"
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' width="{WIDTH}" height="{height}" font-family="system-ui, sans-serif" font-size="13">',
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(20, 28, title, size=17),
        _text(20, 48, "Value / baseline; the tick on a bar is its target.", fill=QUIET),
    ]


def _scale(height: int) -> list[str]:
    marks = []
    for ratio in (0.1, 0.2, 0.5, 1, 2, 5, 10):
        x = _x(ratio)
        ink = QUIET if ratio == 1 else LINE
        marks.append(f'<path d="M{x:.1f} {TOP - 8}V{height - 20}" stroke="{ink}"/>')
        marks.append(_text(x, TOP - 13, f"{ratio:g}", fill=QUIET, anchor="middle", size=11))
    return marks


def _row(figure: Figure, top: int) -> list[str]:
    """One bar from the line of the baseline to the ratio, with words on both sides."""
    ratio = figure.ratio or 1.0
    ink = {None: PLAIN, True: GOOD, False: BAD}[figure.ok]
    left, right = sorted((_x(1), _x(ratio)))
    middle = top + ROW / 2
    sizes = f"{number(figure.value)} {figure.unit}, {ratio:.2f} x"
    drawn = [
        _text(20, middle - 1, figure.name),
        _text(20, middle + 11, f"beside {figure.beside}", fill=QUIET, size=10),
        f'<rect x="{left:.1f}" y="{middle - BAR / 2:.1f}" width="{max(right - left, 1.5):.1f}"'
        f' height="{BAR}" rx="2" fill="{ink}"/>',
        _text(WIDTH - RIGHT + 10, middle + 4, sizes, fill=ink, size=12),
    ]
    if figure.target is not None:
        drawn.append(
            f'<path d="M{_x(figure.target):.1f} {middle - 11:.1f}v22" stroke="{INK}"'
            ' stroke-width="2"/>'
        )
    return drawn


def _x(ratio: float) -> float:
    """Where a ratio stands, by its logarithm."""
    bounded = min(max(ratio, LOWEST), HIGHEST)
    share = math.log(bounded / LOWEST) / math.log(HIGHEST / LOWEST)
    return LABELS + share * (WIDTH - RIGHT - LABELS)


def _text(
    x: float, y: float, words: str, *, fill: str = INK, size: int = 13, anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" font-size="{size}"'
        f' text-anchor="{anchor}">{escape(words)}</text>'
    )
