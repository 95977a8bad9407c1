"""Read new events of the journal behind a cursor and send their notifications."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.db import transaction

from reviews.models import NoticeKind
from reviews.slack import outbox as slack_outbox
from workflows.journal.event_log import ReadWatermark
from workflows.models import EventCursor, ExecutionEvent, Grant, Hold
from workflows.realtime import work_hints

from .notify import Notification, mark_resolved, notify
from .polling import poll
from .recipients import EligibleDeciders

if TYPE_CHECKING:
    from django.contrib.auth.models import User

NAME = "notices"
BATCH = 500
_END_KINDS = ("execution_completed", "execution_failed", "execution_aborted")
#: An answer that can still be withdrawn resolves the hold's notices; a withdrawal reopens it.
_ANSWER_KINDS = ("hold_answered", "hold_withdrawn")
#: Events after which messages in Slack show something else than before.
_DECISION_KINDS = ("hold_voted", "hold_decided", *_ANSWER_KINDS)
_KINDS = ("hold_opened", "hold_escalated", "result_reported", *_DECISION_KINDS, *_END_KINDS)


def run(stop: threading.Event) -> None:
    """Read until stopped, in a thread of the sweeper's process."""
    watermark = ReadWatermark()
    poll(
        lambda: read_new(watermark),
        stop,
        group=work_hints.CHANGES,
        due=lambda: 0 if watermark.is_waiting else None,
    )


def read_new(watermark: ReadWatermark | None = None) -> int:
    """Process events after the cursor; return how many event ids it advanced."""
    bound = (watermark or ReadWatermark()).advance()
    rows = EventCursor.objects.filter(name=NAME)
    reached = rows.values_list("event", flat=True).first()
    if reached is None:
        EventCursor.objects.get_or_create(name=NAME)
    elif reached >= bound:
        return 0  # without a transaction that locks the cursor
    with transaction.atomic():
        cursor = rows.select_for_update(skip_locked=True).first()
        if cursor is None or cursor.event >= bound:
            return 0
        events = list(
            ExecutionEvent.objects.filter(
                pk__gt=cursor.event, pk__lte=bound, kind__in=_KINDS
            ).order_by("pk")[:BATCH]
        )
        reached = events[-1].pk if len(events) == BATCH else bound
        if events:
            _process(events)
        rows.update(event=reached)
        return reached - cursor.event


def _process(events: Sequence[ExecutionEvent]) -> None:
    holds = _holds(events)
    deciders = EligibleDeciders(_groups(events, holds), holds.values())
    named = _named(events)
    mark_resolved(hold_ids=[e.payload["hold_id"] for e in events if _is_answer(e)])
    notify(list(_notifications(events, holds, deciders, named)))
    mark_resolved(
        hold_ids=[e.payload["hold_id"] for e in events if e.kind == "hold_decided"],
        execution_ids=[e.execution_id for e in events if e.kind in _END_KINDS],
    )
    slack_outbox.refresh(
        hold_ids=[e.payload["hold_id"] for e in events if e.kind in _DECISION_KINDS],
        execution_ids=[e.execution_id for e in events if e.kind in _END_KINDS],
    )
    # The run has ended by then, which resolves its other notices.
    notify([each for event in events for each in _mismatch(event)])


def _is_answer(event: ExecutionEvent) -> bool:
    """Whether the event answers the whole hold; a vote of a quorum leaves it to the others."""
    return event.kind in _ANSWER_KINDS and event.payload.get("what") != "vote"


def _holds(events: Iterable[ExecutionEvent]) -> Mapping[str, Hold]:
    ids = {event.payload["hold_id"] for event in events if "hold_id" in event.payload}
    rows = Hold.objects.select_related("execution__created_by").defer(
        "payload", "execution__state", "execution__context", "execution__inputs"
    )
    return rows.in_bulk(list(ids))


def _groups(events: Iterable[ExecutionEvent], holds: Mapping[str, Hold]) -> set[str]:
    """Return the groups whose members may be notified."""
    groups: set[str] = set()
    for event in events:
        hold = holds.get(event.payload.get("hold_id", ""))
        if event.kind in ("hold_opened", "hold_withdrawn") and hold is not None:
            groups.update(hold.groups)
        groups.update(event.payload.get("groups") or ())
    return groups


def _named(events: Iterable[ExecutionEvent]) -> Mapping[str, User]:
    """Return the users whom escalation steps name, by username."""
    names = {name for event in events for name in event.payload.get("told") or ()}
    if not names:
        return {}
    rows = get_user_model().objects.filter(username__in=names, is_active=True)
    return {person.get_username(): person for person in rows}


def _notifications(
    events: Iterable[ExecutionEvent],
    holds: Mapping[str, Hold],
    deciders: EligibleDeciders,
    named: Mapping[str, User],
) -> Iterator[Notification]:
    withdrawn = (e for e in events if e.kind == "hold_withdrawn" and _is_answer(e))
    reopened = {e.payload["hold_id"]: e.seq for e in withdrawn}  # the last withdrawal of each hold
    for event in events:
        hold = holds.get(event.payload.get("hold_id", ""))
        if hold is None or hold.decider != "human":
            continue
        if event.kind == "hold_decided":
            yield _decided(event, hold)
        elif hold.status != Hold.Status.OPEN:
            continue  # already decided
        elif event.kind == "hold_opened" and hold.pk not in reopened:
            yield _opened(hold, deciders)
        elif event.kind == "hold_escalated":
            yield _escalated(event, hold, deciders, named)
        elif reopened.get(hold.pk) == event.seq:
            yield _reopened(event, hold, deciders)


def _opened(hold: Hold, deciders: EligibleDeciders) -> Notification:
    return Notification(
        kind=NoticeKind.WAITING.value,
        hold=hold,
        key=f"opened:{hold.pk}",
        recipients=deciders.for_hold(hold),
        groups=hold.groups,
    )


def _reopened(event: ExecutionEvent, hold: Hold, deciders: EligibleDeciders) -> Notification:
    """Notify all deciders again after a withdrawal, except the person who withdrew."""
    candidates = deciders.for_hold(hold)
    return Notification(
        kind=NoticeKind.WAITING.value,
        hold=hold,
        key=f"reopened:{hold.pk}:{event.seq}",
        recipients=[person for person in candidates if person.pk != event.actor_id],
        actor=event.actor,
        detail={"again": True},
        groups=hold.groups,
    )


def _escalated(
    event: ExecutionEvent, hold: Hold, deciders: EligibleDeciders, named: Mapping[str, User]
) -> Notification:
    added = event.payload["groups"]
    people = {each.pk: each for each in deciders.for_hold(hold, added)} if added else {}
    people |= {named[name].pk: named[name] for name in event.payload["told"] if name in named}
    return Notification(
        kind=NoticeKind.ESCALATED.value,
        hold=hold,
        key=f"step:{hold.pk}:{event.payload['step']}",
        recipients=list(people.values()),
        detail={"groups": added},
        groups=added,
    )


def _mismatch(event: ExecutionEvent) -> Iterator[Notification]:
    """Notify the people who approved an action if its agent ran it with other arguments."""
    if event.kind != "result_reported" or not event.payload["mismatch"]:
        return
    rows = Hold.objects.select_related("execution__created_by")
    approved = rows.filter(execution=event.execution_id, status=Hold.Status.APPROVED)
    hold = approved.order_by("-opened_seq").first()
    covering = None if hold else _standing_answer(event.execution_id)
    if covering is not None:
        # The notice is about the decision that gave the answer: there it can be revoked.
        hold = rows.get(pk=covering.hold_id)
    if hold is None:
        return
    ids = [covering.granted_by_id] if covering else hold.approver_ids
    approvers = [user_id for user_id in ids if user_id is not None]
    run = {"run": str(event.execution_id)} if covering else {}
    yield Notification(
        kind=NoticeKind.MISMATCH.value,
        hold=hold,
        key=":".join(("mismatch", hold.pk, *run.values())),
        recipients=list(get_user_model().objects.filter(pk__in=approvers, is_active=True)),
        actor=event.actor,
        detail=run,
        groups=hold.groups,
    )


def _standing_answer(execution_id: int) -> Grant | None:
    """Return the standing answer that covered the action of an execution."""
    skipped = ExecutionEvent.objects.filter(execution=execution_id, kind="review_spared").last()
    number = skipped.payload.get("grant") if skipped else None
    return Grant.objects.filter(pk=number).first() if number else None


def _decided(event: ExecutionEvent, hold: Hold) -> Notification:
    starter = hold.execution.created_by
    should_notify = starter is not None and starter.is_active and starter.pk != event.actor_id
    payload = event.payload
    return Notification(
        kind=NoticeKind.DECIDED.value,
        hold=hold,
        key=f"decided:{hold.pk}",
        recipients=[starter] if should_notify and starter is not None else [],
        actor=event.actor,
        detail={key: payload[key] for key in ("decision", "edited", "by_timeout")},
        groups=hold.groups,
    )
