"""Store notices for the bell and items of outgoing messages, in the caller's transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from django.db.models.functions import Now

from reviews.absences.services import delegates_of
from reviews.decisions.rights import right_now
from reviews.models import (
    ChatHook,
    Notice,
    NoticeKind,
    SlackAccount,
    SlackChannel,
)
from reviews.slack import outbox as slack_outbox
from reviews.sockets import broadcasts
from workflows.models import Hold

from . import outbox
from .preferences import DEFAULTS, Preferences, preferences_by_user

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Notices that ask for a decision; it resolves them.
ACTIONABLE_KINDS = (
    NoticeKind.WAITING.value,
    NoticeKind.REMINDER.value,
    NoticeKind.ESCALATED.value,
    NoticeKind.CLAIM_GIVEN.value,
    NoticeKind.CLAIM_ENDED.value,
)


#: Notices that also reach the delegate of an absent person.
_DELEGATED_KINDS = (
    NoticeKind.WAITING.value,
    NoticeKind.REMINDER.value,
    NoticeKind.ESCALATED.value,
    NoticeKind.CLAIM_GIVEN.value,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """An event of a hold, its recipients, and the groups whose chats receive it.

    `key` identifies the event: a repeated notification has the same key.
    """

    kind: str
    hold: Hold
    key: str
    recipients: Sequence[User]
    actor: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    #: None: sent to no chat.
    groups: Sequence[str] | None = None

    def item(self) -> dict[str, Any]:
        """Return the item of a message."""
        return {
            "kind": self.kind,
            "hold": self.hold.pk,
            "key": self.key,
            "actor": self.actor,
            "detail": dict(self.detail),
        }


def notify(notifications: Iterable[Notification]) -> int:
    """Store notices and message items, update bells on commit, and return the number of notices."""
    events = with_delegates(notifications)
    if not events:
        return 0
    preferences = preferences_by_user({user.pk for each in events for user in each.recipients})
    notices: list[Notice] = []
    mails: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for each in events:
        for user in each.recipients:
            preference = preferences.get(user.pk, DEFAULTS)
            if preference.shows(each.kind):
                notices.append(_notice(each, user))
            if each.kind in preference.mailed and user.email:
                mails[user.pk].append(each.item())
    Notice.objects.bulk_create(notices, batch_size=1000, ignore_conflicts=True)
    outbox.add(mails=mails, posts=_posts(events))
    slack_outbox.add(_to_accounts(events, preferences), _to_channels(events))
    broadcasts.unread_changed({each.user_id for each in notices})
    return len(notices)


def with_delegates(notifications: Iterable[Notification]) -> list[Notification]:
    """Return the notifications, and copies for the delegates of absent recipients.

    A delegate is notified only of what they may decide for the absent person.
    """
    events = list(notifications)
    if not events:
        return []
    absences = delegates_of({user.pk for each in events for user in each.recipients})
    copies = [
        replace(
            each,
            recipients=[absence.delegate],
            groups=None,
            detail={**each.detail, "for": absence.user.get_username()},
        )
        for each in events
        if each.kind in _DELEGATED_KINDS
        for user in each.recipients
        if (absence := absences.get(user.pk)) is not None
        and absence.delegate not in each.recipients
        and right_now(absence.delegate, each.hold).on_behalf_of
    ]
    return [*events, *copies]


def mark_resolved(*, hold_ids: Iterable[str] = (), execution_ids: Iterable[int] = ()) -> None:
    """Mark notices that ask for a decision as read, for these holds and these executions."""
    unread = Notice.objects.filter(read_at=None, kind__in=ACTIONABLE_KINDS)
    for name, ids in (("hold", list(hold_ids)), ("execution", list(execution_ids))):
        if not ids:
            continue
        rows = unread.filter(**{f"{name}__in": ids})
        user_ids = set(rows.values_list("user_id", flat=True))
        if user_ids:
            rows.update(read_at=Now())
            broadcasts.unread_changed(user_ids)


def _notice(each: Notification, user: User) -> Notice:
    return Notice(
        user=user,
        kind=each.kind,
        execution_id=each.hold.execution_id,
        hold=each.hold,
        actor=each.actor,
        detail=dict(each.detail),
        key=each.key,
    )


def _posts(events: Sequence[Notification]) -> dict[int, list[dict[str, Any]]]:
    """Return the items of each chat, by its id."""
    items: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for hook in ChatHook.objects.filter(enabled=True).select_related("group"):
        matching = [each.item() for each in events if _concerns(hook, each)]
        if matching:
            items[hook.pk] = matching
    return items


def _concerns(hook: ChatHook, each: Notification) -> bool:
    """Whether the chat gets the notification; the chat of a person only what is for them."""
    if hook.user_id is not None and all(user.pk != hook.user_id for user in each.recipients):
        return False
    return (hook.user_id is not None or each.groups is not None) and _matches(hook, each)


def _to_accounts(
    events: Sequence[Notification], preferences: Mapping[int, Preferences]
) -> list[tuple[SlackAccount, Notification]]:
    """Return the direct messages to recipients who linked an account and want this kind."""
    user_ids = {user.pk for each in events for user in each.recipients}
    accounts: defaultdict[int, list[SlackAccount]] = defaultdict(list)
    for account in SlackAccount.objects.filter(user__in=user_ids, workspace__enabled=True):
        accounts[account.user_id].append(account)
    return [
        (account, each)
        for each in events
        for user in each.recipients
        for account in accounts[user.pk]
        if each.kind in preferences.get(user.pk, DEFAULTS).messaged
    ]


def _to_channels(events: Sequence[Notification]) -> list[tuple[SlackChannel, Notification]]:
    for_chats = [each for each in events if each.groups is not None]
    if not for_chats:
        return []
    channels = SlackChannel.objects.filter(enabled=True, workspace__enabled=True)
    return [
        (channel, each)
        for channel in channels.select_related("group")
        for each in for_chats
        if _matches(channel, each)
    ]


def _matches(hook: ChatHook | SlackChannel, each: Notification) -> bool:
    if each.kind not in hook.kinds:
        return False
    if hook.workflow_id is not None and hook.workflow_id != each.hold.execution.workflow_id:
        return False
    return hook.group is None or hook.group.name in (each.groups or ())
