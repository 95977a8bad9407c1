"""What a page or an endpoint asks of PostgreSQL, and how PostgreSQL answers each of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

#: Tables that grow for ever: nothing that a person waits for may read one from end to end.
BIG: Final = frozenset(
    {
        "workflows_execution", "workflows_hold", "workflows_executionevent",
        "workflows_taskattempt", "reviews_humanreviewrecord", "reviews_claimstart",
        "workflows_audience", "workflows_executionwords", "reviews_recordwords",
    }
)  # fmt: skip

#: So many rows are looked at for a count that stops at a thousand, or for a page.
BOUNDED: Final = 12_000

_EXPLAIN: Final = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "


@dataclass(frozen=True, slots=True)
class Query:
    """One statement with its plan: milliseconds of planning and execution, pages of 8 kB touched.

    `passed` are the rows that filters threw away; `scanned` the big tables that were read without
    an index, `whole` those of which more than a third was looked at.
    """

    sql: str
    ms: float
    buffers: int
    passed: int
    scanned: frozenset[str]
    whole: frozenset[str]
    plan: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Asked:
    """All reads of one request."""

    queries: tuple[Query, ...]

    @property
    def ms(self) -> float:
        """Time in the database, without travel."""
        return sum(query.ms for query in self.queries)

    @property
    def buffers(self) -> int:
        return sum(query.buffers for query in self.queries)

    @property
    def passed(self) -> int:
        return sum(query.passed for query in self.queries)

    @property
    def whole(self) -> frozenset[str]:
        return frozenset().union(*(query.whole for query in self.queries))

    @property
    def scanned(self) -> frozenset[str]:
        return frozenset().union(*(query.scanned for query in self.queries))

    def worst(self) -> Query:
        """The statement that took longest."""
        return max(self.queries, key=lambda query: query.ms)


def asked_by(request: Callable[[], object]) -> Asked:
    """Make the request, then explain each read of it by running it once more."""
    with CaptureQueriesContext(connection) as seen:
        request()
    with transaction.atomic():  # `SET LOCAL` has no effect outside a transaction
        return Asked(tuple(_again(each["sql"] for each in seen)))


def _again(statements: Iterable[str]) -> Iterator[Query]:
    for sql in statements:
        if sql.startswith("SELECT"):
            yield explained(sql)
        elif sql.startswith("SET LOCAL"):
            with connection.cursor() as cursor:
                cursor.execute(sql)


def explained(sql: str) -> Query:
    """The statement, run once under EXPLAIN (ANALYZE, BUFFERS)."""
    with connection.cursor() as cursor:
        cursor.execute(_EXPLAIN + sql.replace("%", "%%"), ())
        (found,) = cursor.fetchone()
    (top,) = found if isinstance(found, list) else json.loads(found)
    plan = top["Plan"]
    nodes = tuple(_nodes(plan))
    return Query(
        sql=sql,
        ms=top["Planning Time"] + top["Execution Time"],
        buffers=plan["Shared Hit Blocks"] + plan["Shared Read Blocks"],
        passed=sum(node.get("Rows Removed by Filter", 0) * node["Actual Loops"] for node in nodes),
        scanned=frozenset(
            node["Relation Name"]
            for node in nodes
            if node["Node Type"] == "Seq Scan" and node["Relation Name"] in BIG
        ),
        whole=_whole(nodes),
        plan=plan,
    )


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _whole(nodes: tuple[dict[str, Any], ...]) -> frozenset[str]:
    """Big tables of which more than a third was looked at, by whatever kind of scan.

    What stops after some thousand rows is bounded, however few there are in all.
    """
    looked: Counter[str] = Counter()
    for node in nodes:
        if node.get("Relation Name") in BIG:
            rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            looked[node["Relation Name"]] += rows * node["Actual Loops"]
    return frozenset(
        name for name, rows in looked.items() if rows > max(BOUNDED, rows_of(name) / 3)
    )


@cache
def rows_of(table: str) -> int:
    """How many rows a table has."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}")
        (rows,) = cursor.fetchone()
    return int(rows)
