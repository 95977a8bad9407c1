"""Telling people: a notice for the bell, and a line of a message, in the caller's transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db.models.functions import Now

from reviews.models.notifications import ChatHook, Notice, NoticeKind
from reviews.sockets import change_receiver
from workflows.models import Hold

from . import outbox
from .preferences import DEFAULTS, wishes_of_all

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Notices that ask for a decision: once it is made, there is nothing left to do about them.
ASKING = (
    NoticeKind.WAITING.value,
    NoticeKind.REMINDER.value,
    NoticeKind.ESCALATED.value,
    NoticeKind.CLAIM_GIVEN.value,
    NoticeKind.CLAIM_ENDED.value,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What happened to a hold, whom to tell, and which chats' groups it concerns.

    `key` is the same whenever this is told again.
    """

    kind: str
    hold: Hold
    key: str
    to: Sequence[User]
    actor: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    #: None: no chat is told.
    groups: Sequence[str] | None = None

    def item(self) -> dict[str, Any]:
        """A line of a message."""
        return {
            "kind": self.kind,
            "hold": self.hold.pk,
            "key": self.key,
            "actor": self.actor,
            "detail": dict(self.detail),
        }


def tell(tellings: Iterable[Telling]) -> int:
    """Write notices and lines of messages; how many notices.  Bells ring once this is committed."""
    told = list(tellings)
    wishes = wishes_of_all({person.pk for each in told for person in each.to})
    notices: list[Notice] = []
    mails: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for each in told:
        for person in each.to:
            wish = wishes.get(person.pk, DEFAULTS)
            if wish.shows(each.kind):
                notices.append(_notice(each, person))
            if each.kind in wish.mailed and person.email:
                mails[person.pk].append(each.item())
    Notice.objects.bulk_create(notices, batch_size=1000, ignore_conflicts=True)
    outbox.add(mails=mails, posts=_posts(told))
    change_receiver.rang({each.user_id for each in notices})
    return len(notices)


def settle(*, hold_ids: Iterable[str] = (), execution_ids: Iterable[int] = ()) -> None:
    """What asked for a decision about these holds, or in these runs, is done with."""
    unread = Notice.objects.filter(read_at=None, kind__in=ASKING)
    for rows in (
        unread.filter(hold__in=list(hold_ids)),
        unread.filter(execution__in=list(execution_ids)),
    ):
        people = set(rows.values_list("user_id", flat=True))
        if people:
            rows.update(read_at=Now())
            change_receiver.rang(people)


def _notice(each: Telling, person: User) -> Notice:
    return Notice(
        user=person,
        kind=each.kind,
        execution_id=each.hold.execution_id,
        hold=each.hold,
        actor=each.actor,
        detail=dict(each.detail),
        key=each.key,
    )


def _posts(told: Sequence[Telling]) -> dict[int, list[dict[str, Any]]]:
    """Lines per chat that wants them."""
    open_to_chats = [each for each in told if each.groups is not None]
    found: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    if not open_to_chats:
        return found
    for hook in ChatHook.objects.filter(enabled=True).select_related("group"):
        lines = [each.item() for each in open_to_chats if _wants(hook, each)]
        if lines:
            found[hook.pk] = lines
    return found


def _wants(hook: ChatHook, each: Telling) -> bool:
    if each.kind not in hook.kinds:
        return False
    if hook.workflow_id is not None and hook.workflow_id != each.hold.execution.workflow_id:
        return False
    return hook.group is None or hook.group.name in (each.groups or ())
