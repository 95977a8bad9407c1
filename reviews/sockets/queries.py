"""Queries of the sockets: events of the queue and unread notices, for many sockets at once."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import Q

from reviews.notifications import inbox
from workflows.executions.access import visible_to_each
from workflows.models import QUEUE_KINDS, ExecutionEvent
from workflows.realtime.batched_reads import BatchedRead
from workflows.realtime.clients import LiveClient, users_of
from workflows.realtime.event_serialization import SharedEvent, wire_event

from .authentication import UNAUTHENTICATED, Refusal

#: Missed events that are sent to one socket, and that are looked at for all.
_MAX_MISSED, _MAX_RECENT = 500, 2000

#: A range of events of one execution: its id, and the first and last seq.
Span = tuple[int, int, int]


def database_time() -> datetime:
    """Return the time of the database, which also stamps events."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment


# --- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueueNews:
    """The queue's events within these spans, for this client."""

    client: LiveClient
    spans: Sequence[Span]


def read_queue_events(news: Sequence[QueueNews]) -> list[list[list[SharedEvent]] | Exception]:
    """Return the queue's wire events of each span; [] if the client may not see the execution.

    Five statements for any number of clients and spans: the users and their credentials, the
    visible executions, and the events that no socket of this process has read before.
    """
    users = users_of(each.client for each in news)
    spans = {span for each in news if each.client in users for span in each.spans}
    events_of = _queue_events.read(spans)
    visible = visible_to_each(users, {span[0] for span in spans if events_of[span]})
    return [
        [events_of[span] if span[0] in visible[each.client] else [] for span in each.spans]
        if each.client in users
        else Refusal(UNAUTHENTICATED)
        for each in news
    ]


class _QueueEventCache:
    """Cache of the queue's events for all sockets of this process.

    Keyed by span; bounded by MAX_SPANS; never stale, because events do not change.
    """

    MAX_SPANS = 2000

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Span, list[SharedEvent]] = OrderedDict()

    def read(self, spans: Iterable[Span]) -> dict[Span, list[SharedEvent]]:
        """Return the events of each span, oldest first."""
        with self._lock:
            found = {span: self._known[span] for span in spans if span in self._known}
        missing = [span for span in spans if span not in found]
        if missing:
            read = _events_within(missing)
            found |= read
            with self._lock:
                self._known |= read
                while len(self._known) > self.MAX_SPANS:
                    self._known.popitem(last=False)
        return found


_queue_events = _QueueEventCache()


def _events_within(spans: Sequence[Span]) -> dict[Span, list[SharedEvent]]:
    within = Q()
    for execution_id, first, last in spans:
        within |= Q(execution_id=execution_id, seq__gte=first, seq__lte=last)
    rows = ExecutionEvent.objects.filter(within, kind__in=QUEUE_KINDS).order_by("seq")
    of_execution: defaultdict[int, list[SharedEvent]] = defaultdict(list)
    for row in rows:
        of_execution[row.execution_id].append(SharedEvent(wire_event(row)))
    return {
        (execution_id, first, last): [
            event for event in of_execution[execution_id] if first <= event["seq"] <= last
        ]
        for execution_id, first, last in spans
    }


# --- claims and viewers ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Activity:
    """Which of these executions may this client see?"""

    client: LiveClient
    execution_ids: frozenset[int]


def read_visible_ids(activities: Sequence[Activity]) -> list[frozenset[int] | Exception]:
    """Return the ids of the executions that each client may see."""
    users = users_of(each.client for each in activities)
    visible = visible_to_each(users, {pk for each in activities for pk in each.execution_ids})
    return [
        each.execution_ids & visible[each.client]
        if each.client in users
        else Refusal(UNAUTHENTICATED)
        for each in activities
    ]


# --- polls ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Poll:
    """The queue's events since a time that this socket has not sent.

    `seen` has the first and the last seq that it knows of each execution; it must not change
    meanwhile.
    """

    client: LiveClient
    since: datetime
    seen: Mapping[int, tuple[int, int]]

    def lacks(self, execution_id: int, seq: int) -> bool:
        first, last = self.seen.get(execution_id, (1, 0))
        return not first <= seq <= last


@dataclass(frozen=True, slots=True)
class Missed:
    """Missed events, oldest first, and the database's time before they were read."""

    events: Sequence[SharedEvent]
    at: datetime


def read_missed(polls: Sequence[Poll]) -> list[Missed | Exception]:
    """Return the events that each socket has missed, the newest 500 of them."""
    now, users = database_time(), users_of(each.client for each in polls)
    recent = ExecutionEvent.objects.filter(
        created_at__gte=min(each.since for each in polls), kind__in=QUEUE_KINDS
    ).order_by("-created_at", "-seq")
    positions = list(recent.values_list("execution_id", "seq", "created_at")[:_MAX_RECENT])
    unseen = [
        [
            (pk, seq, seq)
            for pk, seq, created_at in positions
            if created_at >= each.since and each.lacks(pk, seq)
        ]
        if each.client in users
        else []
        for each in polls
    ]
    visible = visible_to_each(users, {pk for spans in unseen for pk, _, _ in spans})
    spans_of = [
        [span for span in spans if span[0] in visible[each.client]][:_MAX_MISSED]
        if each.client in users
        else []
        for each, spans in zip(polls, unseen, strict=True)
    ]
    events_of = _queue_events.read({span for spans in spans_of for span in spans})
    return [
        Missed([event for span in reversed(spans) for event in events_of[span]], now)
        if each.client in users
        else Refusal(UNAUTHENTICATED)
        for each, spans in zip(polls, spans_of, strict=True)
    ]


# --- notices --------------------------------------------------------------------------------------


def read_unread(clients: Sequence[LiveClient]) -> list[tuple[int, int] | Exception]:
    """Return `inbox.unread_state` of each client's user."""
    users = users_of(clients)
    states = inbox.unread_states(users)
    return [states[each] if each in users else Refusal(UNAUTHENTICATED) for each in clients]


#: These read for all sockets of this process together.
queue_events = BatchedRead(read_queue_events)
visible_ids = BatchedRead(read_visible_ids)
missed_queue_events = BatchedRead(read_missed)
unread_state = BatchedRead(read_unread)
