"""`Idempotency-Key`: a request that is sent again gets the answer of the first time.

What the request does and the memory of its answer commit together, so there is never one without
the other; a repetition that comes meanwhile waits for that commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from .engine.bounded_json import digest
from .engine.decide import Refused
from .engine.ports import StaleVersion
from .models import IdempotencyKey

if TYPE_CHECKING:
    from django.contrib.auth.models import User

KEPT = timedelta(hours=24)
MAX_KEY = 200
#: Refusals that leave nothing behind but a line in the command log, which is to stay.
_REFUSALS = (Refused, StaleVersion)


class KeyReused(Exception):
    """The key came before, with another body."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request was answered: status, JSON text of the body, address of what it made."""

    status: int
    text: str
    location: str = ""
    replayed: bool = False


def answer_once(
    *, user: User, key: str, route: str, body: Any, perform: Callable[[], Answer]
) -> Answer:
    """The answer to (user, key, route): `perform()` at the first time, its memory for 24 hours.

    An exception of `perform` is raised and not remembered: nothing was done, so that the same
    request may be tried again.  Raises KeyReused when `body` is another one.
    """
    wanted = digest(body)
    with transaction.atomic():
        mine = {"user": user, "key": key, "route": route}
        IdempotencyKey.objects.filter(**mine, created_at__lt=Now() - KEPT).delete()
        # Two at once meet at the unique constraint: the second waits until the first has committed.
        row, first = IdempotencyKey.objects.get_or_create(**mine, defaults={"body_digest": wanted})
        if not first:
            return _given(row, wanted)
        try:
            answer = perform()
        except _REFUSALS as error:
            row.delete()
            refusal: Exception = error
        else:
            _keep(row, answer)
            return answer
    raise refusal


def _given(row: IdempotencyKey, wanted: str) -> Answer:
    if row.body_digest != wanted:
        raise KeyReused
    kept = row.answer or {}
    return replace(
        Answer(status=row.status or 200, text=kept["text"], location=kept["location"]),
        replayed=True,
    )


def _keep(row: IdempotencyKey, answer: Answer) -> None:
    row.status = answer.status
    # The text inside a JSON string: jsonb would write numbers and the order of keys anew.
    row.answer = {"text": answer.text, "location": answer.location}
    row.save(update_fields=["status", "answer"])


def forget_old() -> int:
    """Drop what is older than 24 hours; how many there were.  A hook of the sweeper."""
    old: QuerySet[IdempotencyKey] = IdempotencyKey.objects.filter(created_at__lt=Now() - KEPT)
    return old.delete()[0]


def json_text(value: Any) -> str:
    """JSON text of an answer's body, keys in their order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
