"""What was measured: figures with their baselines, as a table and as JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value.

    `baseline` is what it is held against, in the same unit, and `ratio` is value / baseline.
    `target` bounds the ratio, or the value where there is no baseline; None measures only.
    """

    name: str
    value: float
    unit: str
    n: int
    baseline: float | None = None
    beside: str = ""
    target: float | None = None
    bound: Literal["at most", "at least"] = "at most"

    @property
    def ratio(self) -> float | None:
        return self.value / self.baseline if self.baseline else None

    @property
    def ok(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        measured = self.value if self.ratio is None else self.ratio
        return measured <= self.target if self.bound == "at most" else measured >= self.target

    @property
    def wanted(self) -> str:
        """The target in words."""
        if self.target is None:
            return ""
        sign = "<=" if self.bound == "at most" else ">="
        return f"{sign} {self.target:g}" + (f" {self.unit}" if self.ratio is None else " x")

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "target": self.wanted, "ok": self.ok}


def middle(samples: Sequence[float]) -> float:
    """The median."""
    return statistics.median(samples)


def table(figures: Iterable[Figure]) -> str:
    """All figures, one per line, the target and its answer beside each."""
    head = ("figure", "value", "unit", "n", "baseline", "beside", "ratio", "target", "")
    rows = [head, *(_row(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    left = {0, 2, 5, 7, 8}
    lines = [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _row(figure: Figure) -> tuple[str, ...]:
    answer = {None: "", True: "ok", False: "MISSED"}[figure.ok]
    baseline = "" if figure.baseline is None else number(figure.baseline)
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    value = number(figure.value)
    return (
        figure.name, value, figure.unit, str(figure.n),
        baseline, figure.beside, ratio, figure.wanted, answer,
    )  # fmt: skip


def number(value: float) -> str:
    """Three digits that matter, or all before the point."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def save(figures: Sequence[Figure], path: Path) -> None:
    """Write the list as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([figure.as_json() for figure in figures], indent=1) + "\n")
