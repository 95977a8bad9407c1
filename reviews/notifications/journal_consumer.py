"""From the journal to notices: read behind a cursor, off the way of every run."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.db import transaction

from reviews.models.notifications import NoticeKind
from workflows.journal.event_log import Horizon
from workflows.models import EventCursor, ExecutionEvent, Hold

from .audience import Members
from .notify import Telling, settle, tell
from .threads import repeat

if TYPE_CHECKING:
    from django.contrib.auth.models import User

NAME = "notices"
BATCH = 500
_ENDS = ("execution_completed", "execution_failed", "execution_aborted")
#: An answer that rests asks for nothing; taken back, it is asked for anew.
_ANSWERS = ("hold_answered", "hold_withdrawn")
_KINDS = ("hold_opened", "hold_escalated", "hold_decided", *_ANSWERS, *_ENDS)


def run(stop: threading.Event) -> None:
    """Read until stopped: the sweeper's process does, beside its rounds."""
    horizon = Horizon()
    repeat(lambda: read_new(horizon), stop)


def read_new(horizon: Horizon | None = None) -> int:
    """Tell what the journals say since the last time; how many entries were passed."""
    bound = (horizon or Horizon()).reach()
    with transaction.atomic():
        EventCursor.objects.get_or_create(name=NAME)
        rows = EventCursor.objects.select_for_update(skip_locked=True)
        cursor = rows.filter(name=NAME).first()
        if cursor is None or cursor.event >= bound:
            return 0
        events = list(
            ExecutionEvent.objects.filter(
                pk__gt=cursor.event, pk__lte=bound, kind__in=_KINDS
            ).order_by("pk")[:BATCH]
        )
        reached = events[-1].pk if len(events) == BATCH else bound
        if events:
            _tell(events)
        EventCursor.objects.filter(name=NAME).update(event=reached)
        return reached - cursor.event


def _tell(events: Sequence[ExecutionEvent]) -> None:
    holds = _holds(events)
    members = Members(_groups(events, holds), holds.values())
    named = _named(events)
    settle(hold_ids=[e.payload["hold_id"] for e in events if _answers(e)])
    tell(list(_tellings(events, holds, members, named)))
    settle(
        hold_ids=[e.payload["hold_id"] for e in events if e.kind == "hold_decided"],
        execution_ids=[e.execution_id for e in events if e.kind in _ENDS],
    )


def _answers(event: ExecutionEvent) -> bool:
    """Whether it is about a decision that rests; a vote of a quorum leaves the others asked."""
    return event.kind in _ANSWERS and event.payload.get("what") != "vote"


def _holds(events: Iterable[ExecutionEvent]) -> Mapping[str, Hold]:
    ids = {event.payload["hold_id"] for event in events if "hold_id" in event.payload}
    rows = Hold.objects.select_related("execution__created_by").defer(
        "payload", "execution__state", "execution__context", "execution__inputs"
    )
    return rows.in_bulk(list(ids))


def _groups(events: Iterable[ExecutionEvent], holds: Mapping[str, Hold]) -> set[str]:
    """Every group whose members may have to be told."""
    found: set[str] = set()
    for event in events:
        hold = holds.get(event.payload.get("hold_id", ""))
        if event.kind in ("hold_opened", "hold_withdrawn") and hold is not None:
            found.update(hold.groups)
        found.update(event.payload.get("groups") or ())
    return found


def _named(events: Iterable[ExecutionEvent]) -> Mapping[str, User]:
    """People whom steps of escalation chains name."""
    names = {name for event in events for name in event.payload.get("told") or ()}
    if not names:
        return {}
    rows = get_user_model().objects.filter(username__in=names, is_active=True)
    return {person.get_username(): person for person in rows}


def _tellings(
    events: Iterable[ExecutionEvent],
    holds: Mapping[str, Hold],
    members: Members,
    named: Mapping[str, User],
) -> Iterator[Telling]:
    taken_back = (e for e in events if e.kind == "hold_withdrawn" and _answers(e))
    reopened = {e.payload["hold_id"]: e.seq for e in taken_back}  # the last of each hold
    for event in events:
        hold = holds.get(event.payload.get("hold_id", ""))
        if hold is None or hold.decider != "human":
            continue
        if event.kind == "hold_decided":
            yield _decided(event, hold)
        elif hold.status != Hold.Status.OPEN:
            continue  # it was decided before anybody could be told
        elif event.kind == "hold_opened" and hold.pk not in reopened:
            yield _opened(hold, members)
        elif event.kind == "hold_escalated":
            yield _escalated(event, hold, members, named)
        elif reopened.get(hold.pk) == event.seq:
            yield _reopened(event, hold, members)


def _opened(hold: Hold, members: Members) -> Telling:
    return Telling(
        kind=NoticeKind.WAITING.value,
        hold=hold,
        key=f"opened:{hold.pk}",
        to=members.who_may_decide(hold),
        groups=hold.groups,
    )


def _reopened(event: ExecutionEvent, hold: Hold, members: Members) -> Telling:
    """A decision was taken back: all are asked again but who did that."""
    asked = members.who_may_decide(hold)
    return Telling(
        kind=NoticeKind.WAITING.value,
        hold=hold,
        key=f"reopened:{hold.pk}:{event.seq}",
        to=[person for person in asked if person.get_username() != event.actor],
        actor=event.actor,
        detail={"again": True},
        groups=hold.groups,
    )


def _escalated(
    event: ExecutionEvent, hold: Hold, members: Members, named: Mapping[str, User]
) -> Telling:
    added = event.payload["groups"]
    people = {each.pk: each for each in members.who_may_decide(hold, added)} if added else {}
    people |= {named[name].pk: named[name] for name in event.payload["told"] if name in named}
    return Telling(
        kind=NoticeKind.ESCALATED.value,
        hold=hold,
        key=f"step:{hold.pk}:{event.payload['step']}",
        to=list(people.values()),
        detail={"groups": added},
        groups=added,
    )


def _decided(event: ExecutionEvent, hold: Hold) -> Telling:
    starter = hold.execution.created_by
    told = starter is not None and starter.is_active and starter.get_username() != event.actor
    payload = event.payload
    return Telling(
        kind=NoticeKind.DECIDED.value,
        hold=hold,
        key=f"decided:{hold.pk}",
        to=[starter] if told and starter is not None else [],
        actor=event.actor,
        detail={key: payload[key] for key in ("decision", "edited", "by_timeout")},
        groups=hold.groups,
    )
