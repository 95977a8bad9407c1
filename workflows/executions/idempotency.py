"""`Idempotency-Key`: a request that is sent again gets the answer of the first time.

What the request does and the memory of its answer commit together, so there is never one without
the other; a repetition that comes meanwhile waits for that commit.

Secrets that an answer shows once (a new token, a signing secret) are never in the memory as they
are: they are sealed with SECRET_KEY, as the signing secrets themselves are, and go with it after
24 hours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from workflows.common.secret_encryption import decrypt, encrypt
from workflows.engine.bounded_json import digest
from workflows.engine.decide import Refused
from workflows.engine.ports import StaleVersion
from workflows.models import IdempotencyKey

from . import access

if TYPE_CHECKING:
    from django.contrib.auth.models import User

KEPT = timedelta(hours=24)
MAX_KEY = 200
#: Refusals that leave nothing behind but a line in a log, which is to stay.
_REFUSALS: list[type[Exception]] = [Refused, StaleVersion]


class KeyReused(Exception):
    """The key came before, with another body."""


#: Does the part of this name, once: its text.
Part = Callable[[str, Callable[[], str]], str]


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """What a request was answered: status, JSON text of the body, address of what it made.

    `secrets` are further fields of the body, which are kept sealed.
    """

    status: int
    text: str
    location: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict)
    replayed: bool = False


def keep_refusal_logs(*exceptions: type[Exception]) -> None:
    """These are raised by use cases that undo their own work and then note the refusal.

    The note is to stay, so that what was refused under a key is not hidden from the auditors.
    """
    _REFUSALS.extend(exceptions)


def respond_once(
    *, user: User, key: str, route: str, body: Any, perform: Callable[[], StoredResponse]
) -> StoredResponse:
    """The answer to (user, key, route): `perform()` at the first time, its memory for 24 hours.

    The memory is for the same session or token alone: an answer may show what another token of the
    same person may not see.

    An exception of `perform` is raised and not remembered: nothing was done, so that the same
    request may be tried again.  Raises KeyReused when `body` is another one, and DecryptionFailed
    when the answer had a secret and SECRET_KEY was changed without keeping the old one.
    """
    wanted = digest(body)
    with transaction.atomic():
        mine = {"user": user, "credential": _credential(user), "key": key, "route": route}
        IdempotencyKey.objects.filter(**mine, created_at__lt=Now() - KEPT).delete()
        # Two at once meet at the unique constraint: the second waits until the first has committed.
        row, first = IdempotencyKey.objects.get_or_create(**mine, defaults={"body_digest": wanted})
        if not first:
            return _given(row, wanted)
        try:
            answer = perform()
        except tuple(_REFUSALS) as error:
            row.delete()
            refusal: Exception = error
        else:
            _keep(row, answer)
            return answer
    raise refusal


def respond_in_parts(
    *, user: User, key: str, route: str, body: Any, perform: Callable[[Part], StoredResponse]
) -> StoredResponse:
    """As `respond_once`, for work that is several transactions on purpose.

    `perform` gets a function that does a named part, or gives the text it ended with the first
    time: a request that is sent again after a crash, or meanwhile, does only what is left.
    """
    wanted = digest(body)
    mine = {"user": user, "credential": _credential(user), "key": key, "route": route}
    IdempotencyKey.objects.filter(**mine, created_at__lt=Now() - KEPT).delete()
    row, _ = IdempotencyKey.objects.get_or_create(**mine, defaults={"body_digest": wanted})
    if row.answer is not None or row.body_digest != wanted:
        return _given(row, wanted)

    def part(name: str, do: Callable[[], str]) -> str:
        one = {"user": user, "key": key, "route": f"{route}#{name}", "body": body}
        return respond_once(**one, perform=lambda: StoredResponse(200, do())).text

    answer = perform(part)
    _keep(row, answer)
    return answer


def _credential(user: User) -> str:
    """What the user calls with: "" for a session, else their token with its present limit."""
    token = access.credential_of(user)
    if token is None:
        return ""
    only = access.allowed_workflow_ids(user)
    return digest([token.token_id, None if only is None else sorted(only), sorted(token.scopes)])


def _given(row: IdempotencyKey, wanted: str) -> StoredResponse:
    if row.body_digest != wanted:
        raise KeyReused
    kept = row.answer or {}
    sealed = kept.get("sealed")
    answer = StoredResponse(
        status=row.status or 200,
        text=kept["text"],
        location=kept["location"],
        secrets=json.loads(decrypt(sealed)) if sealed else {},
    )
    return replace(answer, replayed=True)


def _keep(row: IdempotencyKey, answer: StoredResponse) -> None:
    row.status = answer.status
    # The text inside a JSON string: jsonb would write numbers and the order of keys anew.
    row.answer = {"text": answer.text, "location": answer.location}
    if answer.secrets:
        row.answer["sealed"] = encrypt(json.dumps(dict(answer.secrets)))
    row.save(update_fields=["status", "answer"])


def forget_old() -> int:
    """Drop what is older than 24 hours; how many there were.  A hook of the sweeper."""
    old: QuerySet[IdempotencyKey] = IdempotencyKey.objects.filter(created_at__lt=Now() - KEPT)
    return old.delete()[0]


def json_text(value: Any) -> str:
    """JSON text of an answer's body, keys in their order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
