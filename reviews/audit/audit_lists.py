"""Audit lists: denied attempts, skipped reviews and revealed values share one page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.db.models import Model, QuerySet

from reviews import conf
from workflows.common import keyset

M = TypeVar("M", bound=Model)
#: The template of every audit list.
TEMPLATE = "reviews/audit/list.html"


@dataclass(frozen=True, slots=True)
class Entry:
    """A row: a sentence, the part of it in bold, and an optional quote below."""

    sentence: str
    subject: str
    at: datetime
    url: str
    quote: str = ""


@dataclass(frozen=True, slots=True)
class AuditListText:
    """The heading and introduction of a list, and the text of its empty state."""

    heading: str
    lead: str
    nothing: str
    nothing_more: str


def audit_list_context(
    text: AuditListText,
    rows: QuerySet[M],
    entry: Callable[[M], Entry],
    *,
    address: str,
    cursor: str,
    filters: Mapping[str, str] | None = None,
    chips: Iterable[tuple[str, str]] = (),
) -> dict[str, Any]:
    """Return the context of TEMPLATE for one page of rows; raises keyset.BadCursor.

    `cursor` is "" for the first page.  `filters` are repeated in the page links, and `chips` show
    them as (label, value).
    """
    page = keyset.page(rows, cursor=cursor, size=conf.page_size())
    query = dict(filters or {})
    return {
        "text": text,
        "rows": tuple(map(entry, page.rows)),
        "chips": tuple(chips),
        "address": address,
        "next_url": _url(address, query | {"cursor": page.next}) if page.next else "",
        "previous_url": _url(address, query) if cursor else "",
    }


def _url(address: str, query: Mapping[str, str]) -> str:
    return f"{address}?{urlencode(query)}" if query else address
