"""New events of an execution for an open connection: rights first, then events, in batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from workflows.engine.protocol.status import ExecutionStatus
from workflows.executions.access import visible_to_each
from workflows.models import Execution

from .batched_reads import BatchedRead
from .clients import LiveClient, users_of
from .event_serialization import SharedEvent, wire_events


@dataclass(frozen=True, slots=True)
class Position:
    """Up to `limit` events of the execution after seq `after`, for this client."""

    client: LiveClient
    execution_id: int
    after: int
    limit: int


@dataclass(frozen=True, slots=True)
class NewEvents:
    """The events after a position; none if the client may not see the execution (any more)."""

    #: Whether the client's credential is valid.
    is_authenticated: bool
    #: Whether the client may see the execution.
    is_visible: bool = False
    #: Shared by all clients at the same position.
    events: Sequence[SharedEvent] = field(default_factory=list)
    #: Whether no further event can follow.
    ended: bool = True


def read_new_events(positions: Sequence[Position]) -> list[NewEvents]:
    """Return the new events of each position; events of the same position are read once."""
    users = users_of(each.client for each in positions)
    ids = {each.execution_id for each in positions if each.client in users}
    visible = visible_to_each(users, ids)
    # Before the events: a version that is read now is reached by the events that are read next.
    rows = Execution.objects.filter(pk__in=ids).values_list("pk", "status", "version")
    states = {pk: (status, version) for pk, status, version in rows}
    events_at: dict[tuple[int, int, int], list[SharedEvent]] = {}

    def at(position: Position) -> NewEvents:
        if position.client not in users:
            return NewEvents(is_authenticated=False)
        execution_id, after, limit = position.execution_id, position.after, position.limit
        if execution_id not in visible[position.client] or execution_id not in states:
            return NewEvents(is_authenticated=True)
        key = (execution_id, after, limit)
        if key not in events_at:
            found = wire_events(execution_id, after=after, limit=limit)
            events_at[key] = [SharedEvent(each) for each in found]
        events = events_at[key]
        last = events[-1]["seq"] if events else after  # the last event of a list always has a seq
        status, version = states[execution_id]
        ended = ExecutionStatus(status).is_final and last >= version
        return NewEvents(is_authenticated=True, is_visible=True, events=events, ended=ended)

    return [at(position) for position in positions]


#: Read new events together with all other connections of this process.
new_events = BatchedRead(read_new_events)
