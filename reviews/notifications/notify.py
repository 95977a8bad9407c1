"""Store notices for the bell and items of outgoing messages, in the caller's transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db.models.functions import Now

from reviews.models import ChatHook, Notice, NoticeKind
from reviews.sockets import broadcasts
from workflows.models import Hold

from . import outbox
from .preferences import DEFAULTS, preferences_by_user

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
    events = list(notifications)
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
    broadcasts.unread_changed({each.user_id for each in notices})
    return len(notices)


def mark_resolved(*, hold_ids: Iterable[str] = (), execution_ids: Iterable[int] = ()) -> None:
    """Mark notices that ask for a decision as read, for these holds and these executions."""
    unread = Notice.objects.filter(read_at=None, kind__in=ACTIONABLE_KINDS)
    for rows in (
        unread.filter(hold__in=list(hold_ids)),
        unread.filter(execution__in=list(execution_ids)),
    ):
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
    for_chats = [each for each in events if each.groups is not None]
    items: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    if not for_chats:
        return items
    for hook in ChatHook.objects.filter(enabled=True).select_related("group"):
        matching = [each.item() for each in for_chats if _matches(hook, each)]
        if matching:
            items[hook.pk] = matching
    return items


def _matches(hook: ChatHook, each: Notification) -> bool:
    if each.kind not in hook.kinds:
        return False
    if hook.workflow_id is not None and hook.workflow_id != each.hold.execution.workflow_id:
        return False
    return hook.group is None or hook.group.name in (each.groups or ())
