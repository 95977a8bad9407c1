"""Messages to Slack: stored with their event, claimed by one sender at a time, updated later."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import F, QuerySet
from django.db.models.functions import Now

from reviews import conf
from reviews.models import SlackAccount, SlackChannel, SlackMessage, SlackWorkspace
from reviews.notifications.outbox import backoff_seconds, claim_due
from workflows.common.stored_text import storable
from workflows.realtime import work_hints

if TYPE_CHECKING:
    from reviews.notifications.notify import Notification

Status = SlackMessage.Status


def add(
    people: Iterable[tuple[SlackAccount, Notification]],
    channels: Iterable[tuple[SlackChannel, Notification]],
) -> None:
    """Queue a message for each account and each channel, in the caller's transaction."""
    messages = [
        _message(each, workspace_id=account.workspace_id, account=account)
        for account, each in people
    ]
    messages += [
        _message(each, workspace_id=channel.workspace_id, channel=channel)
        for channel, each in channels
    ]
    SlackMessage.objects.bulk_create(messages, batch_size=1000, ignore_conflicts=True)
    if messages:
        work_hints.announce_work()


def _message(each: Notification, **receiver: Any) -> SlackMessage:
    return SlackMessage(
        hold=each.hold,
        kind=each.kind,
        key=each.key,
        actor=each.actor,
        detail=dict(each.detail),
        **receiver,
    )


def refresh(*, hold_ids: Iterable[str] = (), execution_ids: Iterable[int] = ()) -> None:
    """Have the messages about these holds, and about holds of these executions, updated."""
    for name, ids in (("hold", list(hold_ids)), ("hold__execution", list(execution_ids))):
        if ids:
            _refresh(SlackMessage.objects.filter(**{f"{name}__in": ids}))


def _refresh(messages: QuerySet[SlackMessage]) -> None:
    if not messages.exists():
        return
    changes = {"status": Status.PENDING, "attempts": 0, "next_at": Now()}
    if messages.exclude(ts="").update(claims=F("claims") + 1, **changes):
        work_hints.announce_work()
    # Perhaps its sender has read the hold already: `mark_sent` then leaves it pending.
    messages.filter(ts="", status=Status.PENDING).update(claims=F("claims") + 1)


def claim_next() -> SlackMessage | None:
    """Claim the next due message for one lease, which is an attempt; return None without one."""
    pk = claim_due(SlackMessage.objects.all(), claims=F("claims") + 1)
    if pk is None:
        return None
    messages = SlackMessage.objects.select_related(
        "workspace", "account__user", "channel", "hold__execution__workflow"
    )
    return messages.get(pk=pk)


def mark_sent(message: SlackMessage, *, conversation: str, ts: str) -> None:
    """Record success with Slack's ids; a message that was refreshed meanwhile stays pending."""
    posted = {"conversation": conversation, "ts": ts}
    if not _update(message, status=Status.SENT, finished_at=Now(), error="", **posted):
        SlackMessage.objects.filter(pk=message.pk, ts="").update(**posted, next_at=Now())
    _update_workspace(message, last_success_at=Now(), last_error="")


def drop(message: SlackMessage) -> None:
    """Finish a message that has nothing left to say."""
    _update(message, status=Status.DROPPED, finished_at=Now())


def mark_failed(message: SlackMessage, error: str) -> None:
    """Schedule a retry with exponential backoff, or give up after the last attempt."""
    error = storable(error, 1000)
    changes: dict[str, object] = {"error": error}
    if message.attempts >= conf.notice_max_attempts():
        changes |= {"status": Status.FAILED, "finished_at": Now()}
    else:
        seconds = backoff_seconds(message.attempts)
        changes["next_at"] = Now() + timedelta(seconds=seconds)
    _update(message, **changes)
    _update_workspace(message, last_failure_at=Now(), last_error=error)


def pause(message: SlackMessage, seconds: float) -> None:
    """Let the workspace's messages wait after a rate limit; this does not count as an attempt."""
    later = Now() + timedelta(seconds=seconds)
    _update(message, attempts=F("attempts") - 1, next_at=later)
    waiting = SlackMessage.objects.filter(workspace=message.workspace, status=Status.PENDING)
    waiting.filter(next_at__lt=later).update(next_at=later)


def _update(message: SlackMessage, **changes: object) -> int:
    """Update the message; return 0 if it was claimed or refreshed since."""
    claimed = SlackMessage.objects.filter(pk=message.pk, claims=message.claims)
    return claimed.filter(status=Status.PENDING).update(**changes)


def _update_workspace(message: SlackMessage, **changes: object) -> None:
    SlackWorkspace.objects.filter(pk=message.workspace_id).update(**changes)
