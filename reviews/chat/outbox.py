"""Messages to chats: stored with their event, claimed by one sender at a time, updated later."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from reviews import conf
from reviews.models import (
    ChatMessage,
    SlackAccount,
    SlackChannel,
    SlackMessage,
    TeamsAccount,
    TeamsMessage,
)
from reviews.notifications.outbox import backoff_seconds, claim_due
from workflows.common.stored_text import storable
from workflows.realtime import work_hints

if TYPE_CHECKING:
    from reviews.notifications.notify import Notification

Status = ChatMessage.Status
Message = TypeVar("Message", bound=ChatMessage)


def add(
    people: Iterable[tuple[SlackAccount | TeamsAccount, Notification]],
    channels: Iterable[tuple[SlackChannel, Notification]],
) -> None:
    """Queue a message for each account and each channel, in the caller's transaction."""
    accounts = list(people)
    slack = [
        _slack_message(each, account=account)
        for account, each in accounts
        if isinstance(account, SlackAccount)
    ]
    slack += [_slack_message(each, channel=channel) for channel, each in channels]
    teams = [
        _fields_of(TeamsMessage(bot_id=account.bot_id, account=account), each)
        for account, each in accounts
        if isinstance(account, TeamsAccount)
    ]
    SlackMessage.objects.bulk_create(slack, batch_size=1000, ignore_conflicts=True)
    TeamsMessage.objects.bulk_create(teams, batch_size=1000, ignore_conflicts=True)
    if slack or teams:
        work_hints.announce_work()


def _slack_message(
    each: Notification,
    *,
    account: SlackAccount | None = None,
    channel: SlackChannel | None = None,
) -> SlackMessage:
    receiver = account or channel
    assert receiver is not None  # noqa: S101 - one of them is given
    message = SlackMessage(workspace_id=receiver.workspace_id, account=account, channel=channel)
    return _fields_of(message, each)


def _fields_of(message: Message, each: Notification) -> Message:
    """Fill in what the message says."""
    message.hold = each.hold
    message.kind = each.kind
    message.key = each.key
    message.actor = each.actor
    message.detail = dict(each.detail)
    return message


def refresh(*, hold_ids: Iterable[str] = (), execution_ids: Iterable[int] = ()) -> None:
    """Have the messages about these holds, and about holds of these executions, updated."""
    for name, ids in (("hold", list(hold_ids)), ("hold__execution", list(execution_ids))):
        if ids:
            about = Q(**{f"{name}__in": ids})
            _refresh(SlackMessage.objects.filter(about))
            _refresh(TeamsMessage.objects.filter(about))


def _refresh(messages: QuerySet[Message]) -> None:
    if not messages.exists():
        return
    not_posted = {messages.model.posted_field: ""}
    changes = {"status": Status.PENDING, "attempts": 0, "next_at": Now()}
    if messages.exclude(**not_posted).update(claims=F("claims") + 1, **changes):
        work_hints.announce_work()
    # Perhaps its sender has read the hold already: `mark_sent` then leaves it pending.
    messages.filter(**not_posted, status=Status.PENDING).update(claims=F("claims") + 1)


def claim_next(messages: QuerySet[Message]) -> Message | None:
    """Claim the next of these messages that is due for one lease, or return None."""
    pk = claim_due(messages.model._default_manager.all(), claims=F("claims") + 1)
    return None if pk is None else messages.get(pk=pk)


def mark_sent(message: ChatMessage, **posted: str) -> None:
    """Record success; a message that was refreshed meanwhile stays pending.

    `posted` are the fields with the chat's ids of the message.
    """
    if not _update(message, status=Status.SENT, finished_at=Now(), error="", **posted):
        not_posted = {message.posted_field: ""}
        rows = type(message)._default_manager.filter(pk=message.pk, **not_posted)
        rows.update(**posted, next_at=Now())
    _update_connection(message, last_success_at=Now(), last_error="")


def drop(message: ChatMessage) -> None:
    """Finish a message that has nothing left to say."""
    _update(message, status=Status.DROPPED, finished_at=Now())


def mark_failed(message: ChatMessage, error: str) -> None:
    """Schedule a retry with exponential backoff, or give up after the last attempt."""
    error = storable(error, 1000)
    changes: dict[str, object] = {"error": error}
    if message.attempts >= conf.notice_max_attempts():
        changes |= {"status": Status.FAILED, "finished_at": Now()}
    else:
        seconds = backoff_seconds(message.attempts)
        changes["next_at"] = Now() + timedelta(seconds=seconds)
    _update(message, **changes)
    _update_connection(message, last_failure_at=Now(), last_error=error)


def pause(message: ChatMessage, seconds: float) -> None:
    """Let the messages of the workspace or bot wait after a rate limit; it counts as no attempt."""
    later = Now() + timedelta(seconds=seconds)
    _update(message, attempts=F("attempts") - 1, next_at=later)
    connection = message.connection_field
    waiting = type(message)._default_manager.filter(
        **{connection: getattr(message, connection)}, status=Status.PENDING
    )
    waiting.filter(next_at__lt=later).update(next_at=later)


def _update(message: ChatMessage, **changes: object) -> int:
    """Update the message; return 0 if it was claimed or refreshed since."""
    claimed = type(message)._default_manager.filter(pk=message.pk, claims=message.claims)
    return claimed.filter(status=Status.PENDING).update(**changes)


def _update_connection(message: ChatMessage, **changes: object) -> None:
    """Update the workspace or bot of the message."""
    connection = getattr(message, message.connection_field)
    type(connection)._default_manager.filter(pk=connection.pk).update(**changes)
