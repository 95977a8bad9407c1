"""Full text over names and sentences, kept in narrow tables of their own.

A table of words has a row per row that is looked for, with the same primary key, and a column
`words` (tsvector, configuration `simple`) in which `._-/:` part words as blanks do.
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

from workflows.common.db_expressions import AnyOf

#: Hits that are fetched by themselves; of more, the rows are walked in their order.
FEW: Final = 1000
#: So many of the newest rows are looked at first; with so many hits among them words are common.
_NEWEST: Final = 1000
_COMMON: Final = 50


def prefix_query(text: str) -> SearchQuery | None:
    """What has, for each word of `text`, a word that begins with it; None for a text without."""
    words = re.findall(r"\w+", text.replace("_", " "))
    if not words:
        return None
    wanted = " & ".join(f"'{word}':*" for word in words)
    return SearchQuery(wanted, config="simple", search_type="raw")


def full_text_filter(text: str, words: QuerySet[Any], *, column: str = "pk") -> Q:
    """The rows whose primary key is the `column` of a row of `words` that has every word of `text`.

    PostgreSQL does not know how common the beginning of a word is.  So rare ones are looked up
    here, by their index, and common ones are met on the way through the rows.  What is common
    among the newest rows is not looked up: the index would collect every row that has it.
    """
    query = prefix_query(text)
    if query is None:
        return Q(pk__in=())
    found = words.filter(words=query).order_by()
    if column == "pk" and _is_common(words, query):
        return _on_the_way(found, column)
    far = "__" in column
    few = _by_index(found.values_list("pk" if far else column, flat=True)[: FEW + 1])
    if len(few) <= FEW:
        if far:
            # A column of another table is looked up for these alone: a join would start anywhere.
            few = list(words.filter(AnyOf("pk", few)).values_list(column, flat=True))
        return Q(AnyOf("pk", few))
    return _on_the_way(found, column)


def _on_the_way(found: QuerySet[Any], column: str) -> Q:
    # A subquery of one value is asked row by row, and never turned into a join.
    one = found.filter(**{column: OuterRef("pk")}).annotate(hit=Value(value=True)).values("hit")[:1]
    return Q(Exact(Subquery(one), Value(value=True)))


def _is_common(words: QuerySet[Any], query: SearchQuery) -> bool:
    """Whether enough of the newest rows have the words to meet the others on the way."""
    newest = words.order_by("-pk").annotate(hit=ExpressionWrapper(Q(words=query), BooleanField()))
    told = newest.values("pk", "hit")[:_NEWEST].aggregate(hits=Count("pk", filter=Q(hit=True)))
    return bool(told["hits"] >= _COMMON)


def _by_index(rows: QuerySet[Any, Any]) -> list[Any]:
    """The rows, read through an index even where PostgreSQL hopes to meet them sooner."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        found = list(rows)
        cursor.execute("SET LOCAL enable_seqscan = on")
    return found
