"""Lists of entries that are kept for good: denied attempts, spared reviews, masked values shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.db.models import Model, QuerySet

from reviews import conf
from reviews.queue import selectors

M = TypeVar("M", bound=Model)
#: The template of all of them.
TEMPLATE = "reviews/audit/list.html"


@dataclass(frozen=True, slots=True)
class Entry:
    """A row: its sentence, what is stressed in it, what is quoted below ("" for nothing)."""

    sentence: str
    subject: str
    at: datetime
    url: str
    quote: str = ""


@dataclass(frozen=True, slots=True)
class AuditListText:
    """What a list is called, what its entries are, and what stands there without any."""

    heading: str
    lead: str
    nothing: str
    nothing_more: str


def audit_list_context(
    said: AuditListText,
    rows: QuerySet[M],
    entry: Callable[[M], Entry],
    *,
    address: str,
    cursor: str,
    asked: Mapping[str, str] | None = None,
    chips: Iterable[tuple[str, str]] = (),
) -> dict[str, Any]:
    """The context of TEMPLATE, of a page of rows; raises selectors.BadCursor.

    `cursor` is the page's, "" for the first. `asked` are the filters that the addresses repeat, and
    `chips` the same as (name, value) in words.
    """
    page = selectors.page(rows, cursor=cursor, size=conf.page_size())
    query = dict(asked or {})
    return {
        "said": said,
        "rows": tuple(map(entry, page.rows)),
        "chips": tuple(chips),
        "address": address,
        "next_url": _url(address, query | {"cursor": page.next}) if page.next else "",
        "previous_url": _url(address, query) if cursor else "",
        "page_words": "",
    }


def _url(address: str, query: Mapping[str, str]) -> str:
    return f"{address}?{urlencode(query)}" if query else address
