"""Outgoing messages: collected, claimed by one sender at a time, sent at least once."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.mail.backends.dummy import EmailBackend as NoMail
from django.db import connection, transaction
from django.db.models import DurationField, ExpressionWrapper, F, Min, QuerySet
from django.db.models.expressions import Combinable
from django.db.models.functions import Now
from django.utils.module_loading import import_string

from reviews import conf
from reviews.models import ChatHook, NoticeMessage
from workflows.common.stored_text import storable
from workflows.realtime import work_hints

#: Duration of a sender's claim on a message.
LEASE_SECONDS = 120.0

Status = NoticeMessage.Status
Lines = Mapping[int, Sequence[Mapping[str, Any]]]

#: Append to the receiver's open message, or insert one that is due after the gather time and no
#: sooner than the pause after the previous message.
_ADD = """
INSERT INTO reviews_noticemessage AS message ({receiver}_id, items, status, closed, next_at)
VALUES (%(receiver)s, %(items)s::jsonb, 'PENDING', false, greatest(
    now() + make_interval(secs => %(gather)s),
    (SELECT max(finished_at) FROM reviews_noticemessage
      WHERE {receiver}_id = %(receiver)s AND status = 'SENT')
    + make_interval(secs => %(pause)s)))
ON CONFLICT ({receiver}_id) WHERE NOT closed
DO UPDATE SET items = message.items || excluded.items
"""


def mail_is_on() -> bool:
    """Whether a mail backend that sends is configured."""
    return not issubclass(import_string(settings.EMAIL_BACKEND), NoMail)


def add(*, mails: Lines, posts: Lines) -> None:
    """Queue items for users (by user id) and chats (by hook id), in the caller's transaction.

    Receivers are locked in the order of their ids, so that two callers do not deadlock.
    """
    for receiver, lines in (("user", mails if mail_is_on() else {}), ("hook", posts)):
        for pk in sorted(lines):
            _execute(
                _ADD.format(receiver=receiver),
                {
                    "receiver": pk,
                    "items": json.dumps(list(lines[pk])),
                    "gather": conf.notice_gather_seconds(),
                    "pause": conf.notice_pause_seconds(),
                },
            )
    if mails or posts:
        work_hints.announce_work()


def claim_next(receiver: str) -> NoticeMessage | None:
    """Claim the next message that is due to a "user" or a "hook", or return None.

    The claim lasts one lease; after that another sender may claim the message.
    """
    messages = NoticeMessage.objects.exclude(**{receiver: None})
    claimed = claim_due(messages, closed=True)
    if claimed is None:
        return None
    return NoticeMessage.objects.select_related("user", "hook__user").get(pk=claimed)


def claim_due(messages: QuerySet[Any], **changes: Combinable | bool) -> int | None:
    """Claim the next due message of a chat for one lease; return its key, or None.

    A claim is an attempt, and `attempts` fences senders: an update by a sender whose lease ran out
    matches no row.  `changes` are further columns.
    """
    due = messages.filter(status=Status.PENDING, next_at__lte=Now()).order_by("next_at")
    with transaction.atomic():
        pk: int | None = (
            due.select_for_update(skip_locked=True).values_list("pk", flat=True).first()
        )
        if pk is not None:
            lease = timedelta(seconds=LEASE_SECONDS)
            messages.filter(pk=pk).update(
                attempts=F("attempts") + 1, next_at=Now() + lease, **changes
            )
    return pk


def seconds_to_due(messages: QuerySet[Any]) -> float | None:
    """Return the seconds until the first pending message is due, or None if there is none."""
    left = ExpressionWrapper(Min("next_at") - Now(), DurationField())
    found = messages.filter(status=Status.PENDING).aggregate(left=left)["left"]
    return None if found is None else float(found.total_seconds())


def mark_sent(message: NoticeMessage) -> bool:
    """Record success; return False when another sender has claimed the message since."""
    updated = _update(message, status=Status.SENT, finished_at=Now(), error="")
    if updated and message.hook_id:
        ChatHook.objects.filter(pk=message.hook_id).update(last_success_at=Now(), last_error="")
    return bool(updated)


def drop(message: NoticeMessage) -> None:
    """Finish a message that has nothing left to say."""
    _update(message, status=Status.DROPPED, finished_at=Now())


def mark_failed(message: NoticeMessage, error: str, *, retry_after: float = 0) -> None:
    """Schedule a retry with exponential backoff, or give up after the last attempt.

    The retry comes no sooner than `retry_after`, the seconds that the receiver asked for.
    """
    error = storable(error, 1000)
    changes: dict[str, Any] = {"error": error}
    if message.attempts >= conf.notice_max_attempts():
        changes |= {"status": Status.FAILED, "finished_at": Now()}
    else:
        wait = max(backoff_seconds(message.attempts), retry_after)
        changes["next_at"] = Now() + timedelta(seconds=wait)
    updated = _update(message, **changes)
    if updated and message.hook_id:
        ChatHook.objects.filter(pk=message.hook_id).update(last_failure_at=Now(), last_error=error)


def _update(message: NoticeMessage, **changes: Any) -> int:
    """Update the message; return 0 when another sender has claimed it since."""
    claimed = NoticeMessage.objects.filter(pk=message.pk, attempts=message.attempts)
    return claimed.filter(status=Status.PENDING).update(**changes)


def backoff_seconds(attempts: int) -> float:
    """Exponential backoff up to an hour, with jitter in its upper half."""
    wait = min(3600.0, conf.notice_backoff_seconds() * 2.0 ** min(attempts - 1, 20))
    return wait * random.uniform(0.5, 1.0)  # noqa: S311 - jitter


def _execute(statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall()) if cursor.description else []
