"""Messages on their way: gathered, taken by one sender at a time, sent at least once."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.mail.backends.dummy import EmailBackend as NoMail
from django.db import connection
from django.db.models.functions import Now
from django.utils.module_loading import import_string

from reviews import conf
from reviews.models.notifications import ChatHook, NoticeMessage

Status = NoticeMessage.Status
Lines = Mapping[int, Sequence[Mapping[str, Any]]]

#: It joins the message that gathers for this receiver, else begins one.  A new one is due after a
#: few seconds, and not sooner than a pause after the one before.
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
#: Attempts tell one taking from another: what an earlier taker still writes lands nowhere.
_TAKE = """
UPDATE reviews_noticemessage
   SET closed = true, attempts = attempts + 1,
       next_at = now() + make_interval(secs => %(lease)s)
 WHERE id = (
    SELECT id FROM reviews_noticemessage
     WHERE status = 'PENDING' AND next_at <= now() AND {receiver}_id IS NOT NULL
     ORDER BY next_at
     LIMIT 1
     FOR UPDATE SKIP LOCKED)
RETURNING id
"""


def mail_is_on() -> bool:
    """Whether e-mails go anywhere at all."""
    return not issubclass(import_string(settings.EMAIL_BACKEND), NoMail)


def add(*, mails: Lines, posts: Lines) -> None:
    """Lines for people (by user id) and for chats (by hook id), in the caller's transaction.

    Receivers are taken in order, so that two who add at once do not wait for each other.
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


def take(receiver: str) -> NoticeMessage | None:
    """The next message that is due to a "user" or a "hook", for as long as a try may last.

    A taker that dies leaves it to the next once that time is over.
    """
    found = _execute(_TAKE.format(receiver=receiver), {"lease": conf.notice_lease_seconds()})
    if not found:
        return None
    return NoticeMessage.objects.select_related("user", "hook").get(pk=found[0][0])


def sent(message: NoticeMessage) -> bool:
    """It went out; False when somebody else has taken it since."""
    done = _note(message, status=Status.SENT, finished_at=Now(), error="")
    if done and message.hook_id:
        ChatHook.objects.filter(pk=message.hook_id).update(last_success_at=Now(), last_error="")
    return bool(done)


def drop(message: NoticeMessage) -> None:
    """There is nothing left to tell."""
    _note(message, status=Status.DROPPED, finished_at=Now())


def failed(message: NoticeMessage, error: str) -> None:
    """Try again later, each time after a longer wait; after many tries give up and say so."""
    changes: dict[str, Any] = {"error": error[:1000]}
    if message.attempts >= conf.notice_max_attempts():
        changes |= {"status": Status.FAILED, "finished_at": Now()}
    else:
        changes["next_at"] = Now() + timedelta(seconds=_wait(message.attempts))
    done = _note(message, **changes)
    if done and message.hook_id:
        ChatHook.objects.filter(pk=message.hook_id).update(
            last_failure_at=Now(), last_error=error[:1000]
        )


def _note(message: NoticeMessage, **changes: Any) -> int:
    """Write down what came of a try; 0 when somebody else has taken the message since."""
    mine = NoticeMessage.objects.filter(pk=message.pk, attempts=message.attempts)
    return mine.filter(status=Status.PENDING).update(**changes)


def _wait(attempts: int) -> float:
    """Doubling, bounded by an hour, somewhere in its upper half."""
    wait = min(3600.0, conf.notice_backoff_seconds() * 2.0 ** min(attempts - 1, 20))
    return wait * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, keeps no secret


def _execute(statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall()) if cursor.description else []
