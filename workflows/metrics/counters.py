"""Numbers that only grow, kept in PostgreSQL: one truth for all processes, over restarts."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import connection

_ADD = """
INSERT INTO workflows_total (name, label, value)
SELECT * FROM unnest(%s::text[], %s::text[], %s::float8[])
    ON CONFLICT (name, label) DO UPDATE SET value = workflows_total.value + excluded.value
"""


def add(amounts: Mapping[tuple[str, str], float]) -> None:
    """Add to totals, each (name, label), in the present transaction."""
    wanted = sorted((key, value) for key, value in amounts.items() if value)
    if not wanted:
        return
    names = [name for (name, _), _ in wanted]
    labels = [label for (_, label), _ in wanted]
    with connection.cursor() as cursor:
        cursor.execute(_ADD, [names, labels, [float(value) for _, value in wanted]])
