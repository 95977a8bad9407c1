"""Lists of entries that are kept for good: denied attempts, spared reviews, masked values shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

#: The template of all of them.
TEMPLATE = "reviews/kept.html"


@dataclass(frozen=True, slots=True)
class Entry:
    """A row: its sentence, what is stressed in it, what is quoted below ("" for nothing)."""

    sentence: str
    subject: str
    at: datetime
    url: str
    quote: str = ""


@dataclass(frozen=True, slots=True)
class KeptWords:
    """What a list is called, what its entries are, and what stands there without any."""

    heading: str
    lead: str
    nothing: str
    nothing_more: str


def kept_context(
    said: KeptWords,
    entries: Iterable[Entry],
    *,
    address: str,
    cursor: str,
    following: str,
    asked: Mapping[str, str] | None = None,
    chips: Iterable[tuple[str, str]] = (),
) -> dict[str, Any]:
    """The context of TEMPLATE.

    `cursor` is this page's, "" for the first; `following` the next one's, "" for none. `asked` are
    the filters that the addresses repeat, and `chips` the same as (name, value) in words.
    """
    query = dict(asked or {})
    return {
        "said": said,
        "rows": tuple(entries),
        "chips": tuple(chips),
        "address": address,
        "next_url": _url(address, query | {"cursor": following}) if following else "",
        "previous_url": _url(address, query) if cursor else "",
        "page_words": "",
    }


def _url(address: str, query: Mapping[str, str]) -> str:
    return f"{address}?{urlencode(query)}" if query else address
