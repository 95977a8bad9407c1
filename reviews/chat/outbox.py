"""Messages to Slack: stored with their event, claimed by one sender at a time, updated later."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import F, Q
from django.db.models.functions import Now

from reviews import conf
from reviews.models import SlackAccount, SlackChannel, SlackMessage, SlackWorkspace
from reviews.notifications.outbox import backoff_seconds, claim_due
from workflows.realtime import work_hints

if TYPE_CHECKING:
    from reviews.notifications.notify import Notification

Status = SlackMessage.Status


def add(
    people: Iterable[tuple[SlackAccount, Notification]],
    channels: Iterable[tuple[SlackChannel, Notification]],
) -> None:
    """Queue a message for each account and each channel, in the caller's transaction."""
    rows = [_message(each, account=account) for account, each in people]
    rows += [_message(each, channel=channel) for channel, each in channels]
    SlackMessage.objects.bulk_create(rows, batch_size=1000, ignore_conflicts=True)
    if rows:
        work_hints.announce_work()


def _message(
    each: Notification,
    *,
    account: SlackAccount | None = None,
    channel: SlackChannel | None = None,
) -> SlackMessage:
    receiver = account or channel
    assert receiver is not None  # noqa: S101 - one of them is given
    return SlackMessage(
        workspace_id=receiver.workspace_id,
        account=account,
        channel=channel,
        hold=each.hold,
        kind=each.kind,
        key=each.key,
        actor=each.actor,
        detail=dict(each.detail),
    )


def refresh(*, hold_ids: Iterable[str] = (), execution_ids: Iterable[int] = ()) -> None:
    """Have the messages about these holds, and about holds of these executions, updated."""
    for about in (Q(hold__in=list(hold_ids)), Q(hold__execution__in=list(execution_ids))):
        refreshed = (
            SlackMessage.objects.filter(about)
            .exclude(ts="")
            .update(status=Status.PENDING, claims=F("claims") + 1, attempts=0, next_at=Now())
        )
        if refreshed:
            work_hints.announce_work()
        # Perhaps its sender has read the hold already: `mark_sent` then leaves it pending.
        SlackMessage.objects.filter(about, ts="", status=Status.PENDING).update(
            claims=F("claims") + 1
        )


def claim_next() -> SlackMessage | None:
    """Claim the next message that is due for one lease, or return None."""
    pk = claim_due(SlackMessage.objects.all(), claims=F("claims") + 1)
    if pk is None:
        return None
    related = SlackMessage.objects.select_related(
        "workspace", "account__user", "channel", "hold__execution__workflow"
    )
    return related.get(pk=pk)


def mark_sent(message: SlackMessage, *, conversation: str, ts: str) -> None:
    """Record success; a message that was refreshed meanwhile stays pending."""
    stored = {"conversation": conversation, "ts": ts}
    if not _update(message, status=Status.SENT, finished_at=Now(), error="", **stored):
        SlackMessage.objects.filter(pk=message.pk, ts="").update(**stored, next_at=Now())
    SlackWorkspace.objects.filter(pk=message.workspace_id).update(
        last_success_at=Now(), last_error=""
    )


def drop(message: SlackMessage) -> None:
    """Finish a message that has nothing left to say."""
    _update(message, status=Status.DROPPED, finished_at=Now())


def mark_failed(message: SlackMessage, error: str) -> None:
    """Schedule a retry with exponential backoff, or give up after the last attempt."""
    changes: dict[str, object] = {"error": error[:1000]}
    if message.attempts >= conf.notice_max_attempts():
        changes |= {"status": Status.FAILED, "finished_at": Now()}
    else:
        seconds = backoff_seconds(message.attempts)
        changes["next_at"] = Now() + timedelta(seconds=seconds)
    _update(message, **changes)
    SlackWorkspace.objects.filter(pk=message.workspace_id).update(
        last_failure_at=Now(), last_error=error[:1000]
    )


def pause(message: SlackMessage, seconds: float) -> None:
    """Let the workspace's messages wait after a rate limit; it counts as no attempt."""
    later = Now() + timedelta(seconds=seconds)
    _update(message, attempts=F("attempts") - 1, next_at=later)
    waiting = SlackMessage.objects.filter(workspace=message.workspace_id, status=Status.PENDING)
    waiting.filter(next_at__lt=later).update(next_at=later)


def _update(message: SlackMessage, **changes: object) -> int:
    """Update the message; return 0 if it was claimed or refreshed since."""
    claimed = SlackMessage.objects.filter(pk=message.pk, claims=message.claims)
    return claimed.filter(status=Status.PENDING).update(**changes)
