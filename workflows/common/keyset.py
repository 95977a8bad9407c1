"""Keyset pages: a page starts past the last row of the one before, whose key is its cursor.

Pages of HTML and the MCP gateway use it; REST has `CursorPagination` of REST framework.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from django.db.models import Model, Q, QuerySet
from django.utils.dateparse import parse_datetime

M = TypeVar("M", bound=Model)


class BadCursor(ValueError):
    """An invalid cursor."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a keyset listing; `next` is the cursor of the following one, "" at the end."""

    rows: Sequence[Any]
    next: str


def page(
    rows: QuerySet[M], *, cursor: str, size: int, time: str = "", ascending: bool = False
) -> Page:
    """The page of `rows` after `cursor`.

    `rows` are ordered by `-time, -pk`, or by `-pk` alone when `time` is ""; with `ascending` by
    `time, pk`.  Raises BadCursor.
    """
    if cursor:
        rows = rows.filter(past_cursor(cursor, time, "gt" if ascending else "lt"))
    page_rows = list(rows[: size + 1])
    more = len(page_rows) > size
    page_rows = page_rows[:size]
    return Page(page_rows, cursor_of(page_rows[-1], time) if more else "")


def in_batches(rows: QuerySet[M], *, by: str, size: int) -> Iterator[M]:
    """Yield all `rows` by the unique column `by`, with `size` rows in memory at a time.

    `QuerySet.iterator()` does so with a server-side cursor only, which keeps a database session for
    itself, and behind a pooler in transaction mode loads all rows at once.
    """
    rows = rows.order_by(by)
    batch = list(rows[:size])
    while batch:
        yield from batch
        if len(batch) < size:
            return
        batch = list(rows.filter(**{f"{by}__gt": getattr(batch[-1], by)})[:size])


def rows_between(
    rows: QuerySet[M], *, cursor: str, until: str, time: str, ascending: bool = False
) -> QuerySet[M]:
    """Return the `rows` of the page between `cursor` and `until`, the cursor of its last row.

    Ordered as for `page`; "" leaves that side open.  Raises BadCursor.
    """
    way = "gt" if ascending else "lt"
    if cursor:
        rows = rows.filter(past_cursor(cursor, time, way))
    return rows.exclude(past_cursor(until, time, way)) if until else rows


def cursor_of(row: Model, time: str) -> str:
    """Return the cursor of the page that starts past `row`."""
    key: list[Any] = [row.pk]
    if time:
        moment: datetime = getattr(row, time)
        key = [row.pk, moment.isoformat()]
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def past_cursor(cursor: str, time: str, way: str) -> Q:
    """Condition of the rows past the row of `cursor`; `way` as for `past_row`."""
    try:
        key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        raise BadCursor from None
    if not isinstance(key, list) or len(key) != (2 if time else 1):
        raise BadCursor
    if not time:
        if not _is_number(key[0]):
            raise BadCursor
        return Q(**{f"pk__{way}": key[0]})
    return past_row(time, key[1], key[0], way)


def past_row(time: str, text: Any, pk: Any, way: str) -> Q:
    """Condition of the rows past the one with this time, as ISO 8601 text, and this text id.

    `time` names the column; `way` is "gt" for ascending rows, else "lt".  Raises BadCursor.
    """
    moment = _moment(text)
    if moment is None or not isinstance(pk, str) or not pk.isprintable() or not pk:
        raise BadCursor
    return Q(**{f"{time}__{way}": moment}) | Q(**{time: moment, f"pk__{way}": pk})


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _moment(text: Any) -> datetime | None:
    try:
        moment = parse_datetime(text) if isinstance(text, str) and len(text) < 60 else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None
