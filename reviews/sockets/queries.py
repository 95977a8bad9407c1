"""Queries of the sockets: events of one execution, events of the queue."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Q

from workflows.executions.access import filter_visible, visible_to
from workflows.models import QUEUE_KINDS, ExecutionEvent
from workflows.realtime.event_serialization import wire_event, wire_events

from .authentication import NOT_FOUND, Credentials, Refusal

_MAX_MISSED = 500

#: A range of events of one execution: its id, and the first and last seq.
Span = tuple[int, int, int]


def database_time() -> datetime:
    """Return the time of the database, which also stamps events."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment


def execution_events(
    who: Credentials, execution_id: int, after: int, limit: int
) -> list[dict[str, Any]]:
    """Return the next wire events of an execution; raises Refusal if it is not visible."""
    if not visible_to(who.user()).filter(pk=execution_id).exists():
        raise Refusal(NOT_FOUND)
    return wire_events(execution_id, after=after, limit=limit)


def visible_ids(who: Credentials, executions: Iterable[int]) -> frozenset[int]:
    """Return the ids of the executions that the user may see; raises Refusal without a user."""
    return frozenset(
        visible_to(who.user()).filter(pk__in=list(executions)).values_list("pk", flat=True)
    )


def queue_events(who: Credentials, spans: Sequence[Span]) -> list[list[dict[str, Any]]]:
    """Return the queue's wire events of each span; [] if the user may not see the execution.

    Each execution has at most one span.  Three queries for any number of spans: the user, the
    visible executions, and the events that no socket of this process has read before.
    """
    events_of_spans = _queue_events.read(spans)
    pairs = list(zip(spans, events_of_spans, strict=True))
    with_events = {span[0] for span, events in pairs if events}
    visible = visible_ids(who, with_events) if with_events else frozenset()
    return [events if span[0] in visible else [] for span, events in pairs]


class _QueueEventCache:
    """Cache of the queue's events for all sockets of this process.

    Keyed by span; bounded by MAX_SPANS; never stale, because events do not change.
    """

    MAX_SPANS = 2000

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Span, list[dict[str, Any]]] = OrderedDict()

    def read(self, spans: Sequence[Span]) -> list[list[dict[str, Any]]]:
        """Return the events of each span, oldest first."""
        with self._lock:
            found = {span: self._known[span] for span in spans if span in self._known}
        missing = [span for span in dict.fromkeys(spans) if span not in found]
        if missing:
            read = _events_within(missing)
            found |= read
            with self._lock:
                self._known |= read
                while len(self._known) > self.MAX_SPANS:
                    self._known.popitem(last=False)
        return [found[span] for span in spans]


_queue_events = _QueueEventCache()


def _events_within(spans: Sequence[Span]) -> dict[Span, list[dict[str, Any]]]:
    within = Q()
    for execution_id, first, last in spans:
        within |= Q(execution_id=execution_id, seq__gte=first, seq__lte=last)
    found: dict[Span, list[dict[str, Any]]] = {span: [] for span in spans}
    span_of = {span[0]: span for span in spans}
    rows = ExecutionEvent.objects.filter(within, kind__in=QUEUE_KINDS)
    for row in rows.order_by("execution_id", "seq"):
        found[span_of[row.execution_id]].append(wire_event(row))
    return found


def missed_queue_events(
    who: Credentials, since: datetime, seen: Mapping[int, int]
) -> list[dict[str, Any]]:
    """Return the queue's events since a time that this socket has not sent, newest 500.

    Raises:
        Refusal: the user's token or session is no longer valid.
    """
    rows = filter_visible(
        ExecutionEvent.objects.filter(created_at__gte=since, kind__in=QUEUE_KINDS), who.user()
    )
    newest: Iterable[ExecutionEvent] = rows.order_by("-created_at", "-seq")[:_MAX_MISSED]
    missed = [row for row in newest if row.seq > seen.get(row.execution_id, 0)]
    return [wire_event(row) for row in reversed(missed)]
