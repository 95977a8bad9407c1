"""Tables of counts, with an optional bar in each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reviews.insights.charts import Part

#: The value of a cell: a text or a count.
Cell = str | int


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    `links` are the names it begins with, as (name, address or ""); several follow from each other.
    `tag` stands behind them. `parts` are the parts of its bar, `cells` the numbers.
    """

    links: Sequence[tuple[str, str]]
    cells: Sequence[Cell]
    parts: Sequence[Part] = ()
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    `key` is its id on the page, `first` and `columns` are the heads over the names and the numbers,
    and `bars` is the one over the bars, "" without. `legend` says what the parts of a bar mean, as
    (kind, words). `is_code` sets the names as code.
    """

    key: str
    heading: str
    first: str
    columns: Sequence[str]
    rows: Sequence[Row]
    bars: str = ""
    legend: Sequence[tuple[str, str]] = ()
    note: str = ""
    is_code: bool = False
