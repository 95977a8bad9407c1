"""Messages to browsers: stored with their event, claimed by one sender at a time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models.functions import Now

from reviews import conf
from reviews.models import PushMessage, PushSubscription
from reviews.notifications.outbox import backoff_seconds, claim_due
from workflows.common.stored_text import storable
from workflows.realtime import work_hints

if TYPE_CHECKING:
    from reviews.notifications.notify import Notification

Status = PushMessage.Status


def add(events: Iterable[tuple[PushSubscription, Notification]]) -> None:
    """Queue a message for each browser, in the caller's transaction."""
    rows = [
        PushMessage(subscription=browser, hold=each.hold, kind=each.kind, key=each.key)
        for browser, each in events
    ]
    PushMessage.objects.bulk_create(rows, batch_size=1000, ignore_conflicts=True)
    if rows:
        work_hints.announce_work()


def claim_next() -> PushMessage | None:
    """Claim the next message that is due for one lease, or return None."""
    pk = claim_due(PushMessage.objects.all())
    if pk is None:
        return None
    related = PushMessage.objects.select_related("subscription__user", "hold__execution")
    return related.get(pk=pk)


def mark_sent(message: PushMessage) -> None:
    """Record success."""
    if _update(message, status=Status.SENT, finished_at=Now(), error=""):
        PushSubscription.objects.filter(pk=message.subscription_id).update(
            last_success_at=Now(), last_error=""
        )


def drop(message: PushMessage) -> None:
    """Finish a message that has nothing left to say."""
    _update(message, status=Status.DROPPED, finished_at=Now())


def mark_failed(message: PushMessage, error: str) -> None:
    """Schedule a retry with exponential backoff, or give up after the last attempt."""
    error = storable(error, 1000)
    changes: dict[str, object] = {"error": error}
    if message.attempts >= conf.notice_max_attempts():
        changes |= {"status": Status.FAILED, "finished_at": Now()}
    else:
        changes["next_at"] = Now() + timedelta(seconds=backoff_seconds(message.attempts))
    if _update(message, **changes):
        PushSubscription.objects.filter(pk=message.subscription_id).update(last_error=error)


def _update(message: PushMessage, **changes: object) -> int:
    """Update the message; return 0 if another sender has claimed it since."""
    claimed = PushMessage.objects.filter(pk=message.pk, attempts=message.attempts)
    return claimed.filter(status=Status.PENDING).update(**changes)
