"""Full-text search in separate narrow tables.

A word table has one row per searchable row, with the same primary key, and a column `words`
(tsvector, configuration `simple`) in which `._-/:` separate words as spaces do.
"""

from __future__ import annotations

import re
from typing import Any, Final

from django.contrib.postgres.search import SearchQuery
from django.db import connection, transaction
from django.db.models import (
    BooleanField,
    Count,
    ExpressionWrapper,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
)
from django.db.models.lookups import Exact

#: Up to this many matches are fetched by index; for more, the rows are scanned in their order.
FEW: Final = 1000
#: Words are common if at least _COMMON of the _NEWEST newest rows match.
_NEWEST: Final = 1000
_COMMON: Final = 50


def words_of(text: str) -> list[str]:
    """Return the words that a search for `text` looks for."""
    return re.findall(r"\w+", text.replace("_", " "))


def prefix_query(text: str) -> SearchQuery | None:
    """Return a query for rows that have, for each word of `text`, a word with that prefix.

    None if `text` has no word.
    """
    words = words_of(text)
    if not words:
        return None
    expression = " & ".join(f"'{word}':*" for word in words)
    return SearchQuery(expression, config="simple", search_type="raw")


def full_text_filter(text: str, words: QuerySet[Any], *, column: str = "pk") -> Q:
    """Return a filter for rows whose primary key is the `column` of a matching row of `words`.

    PostgreSQL has no statistics about prefixes. So this function looks up rare prefixes by index,
    and tests common ones row by row in the order of the query. If a prefix is common among the
    newest rows, it skips the index, which would collect all matches.
    """
    query = prefix_query(text)
    if query is None:
        return Q(pk__in=())
    matches = words.filter(words=query).order_by()
    if column == "pk" and _is_common(words, query):
        return _per_row(matches, column)
    is_related = "__" in column
    keys = _by_index(matches.values_list("pk" if is_related else column, flat=True)[: FEW + 1])
    if len(keys) <= FEW:
        if is_related:
            # A second query: PostgreSQL might start a join at the related table.
            keys = list(words.filter(pk__in=keys).values_list(column, flat=True))
        return Q(pk__in=keys)
    return _per_row(matches, column)


def _per_row(matches: QuerySet[Any], column: str) -> Q:
    # PostgreSQL evaluates a scalar subquery per row and never turns it into a join.
    hit = (
        matches.filter(**{column: OuterRef("pk")}).annotate(hit=Value(value=True)).values("hit")[:1]
    )
    return Q(Exact(Subquery(hit), Value(value=True)))


def _is_common(words: QuerySet[Any], query: SearchQuery) -> bool:
    """Whether so many of the newest rows match that a scan finds a page of matches quickly."""
    newest = words.order_by("-pk").annotate(hit=ExpressionWrapper(Q(words=query), BooleanField()))
    counts = newest.values("pk", "hit")[:_NEWEST].aggregate(hits=Count("pk", filter=Q(hit=True)))
    return bool(counts["hits"] >= _COMMON)


def _by_index(rows: QuerySet[Any, Any]) -> list[Any]:
    """Read the rows by index, even if the planner prefers a sequential scan."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        result = list(rows)
        cursor.execute("SET LOCAL enable_seqscan = on")
    return result
