"""Ancestors of a fork, and the part of their history that belongs to it."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection
from django.db.models import Q

#: A fork begins at the end of a layer of its parent, which is that layer's `layer_closed` event.
#: The event stays when the checkpoint itself is pruned.
_ANCESTORS = """
WITH RECURSIVE lineage (id, parent_id, layer, newest) AS (
    SELECT id, parent_id, forked_at_layer, 0::bigint FROM workflows_execution WHERE id = %s
    UNION ALL
    SELECT run.id, run.parent_id, run.forked_at_layer,
           (SELECT max(event.seq) FROM workflows_executionevent AS event
             WHERE event.execution_id = run.id AND event.kind = 'layer_closed'
               AND (event.payload->>'layer')::int = lineage.layer)
      FROM lineage JOIN workflows_execution AS run ON run.id = lineage.parent_id
)
SELECT id, coalesce(newest, 0) FROM lineage WHERE id <> %s ORDER BY id
"""


@dataclass(frozen=True, slots=True)
class Ancestor:
    """An ancestor of a fork; its events up to `newest` belong to the fork's history."""

    execution_id: int
    newest: int

    @property
    def events(self) -> Q:
        """The condition on events that selects this part of the history."""
        return Q(execution_id=self.execution_id, seq__lte=self.newest)


def ancestors_of(execution_id: int) -> tuple[Ancestor, ...]:
    """Return the ancestors of an execution, oldest first; empty unless it is a fork.

    A parent has a lower id than its fork, so the order of ids is the order of the history.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ANCESTORS, [execution_id, execution_id])
        return tuple(Ancestor(*row) for row in cursor.fetchall())
