"""Metric counters in PostgreSQL, shared by all processes and kept over restarts."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import connection

_ADD = """
INSERT INTO workflows_total (name, label, value)
SELECT * FROM unnest(%s::text[], %s::text[], %s::float8[])
    ON CONFLICT (name, label) DO UPDATE SET value = workflows_total.value + excluded.value
"""


def add(amounts: Mapping[tuple[str, str], float]) -> None:
    """Add to the counters (name, label), in the present transaction."""
    # Sorted, so that concurrent transactions lock the rows in one order.
    rows = sorted((key, value) for key, value in amounts.items() if value)
    if not rows:
        return
    names = [name for (name, _), _ in rows]
    labels = [label for (_, label), _ in rows]
    with connection.cursor() as cursor:
        cursor.execute(_ADD, [names, labels, [float(value) for _, value in rows]])
