"""`Idempotency-Key`: a repeated request gets the stored response of the first one.

The effect of a request and its stored response commit together.  A repetition that arrives
meanwhile waits for that commit.

Secrets that a response shows once (a new token, a signing secret) are encrypted with SECRET_KEY
and deleted with the response after 24 hours.  So are the bodies of approvals, whose arguments are
not masked for their caller.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from workflows.common.secret_encryption import decrypt, encrypt
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.ports import StaleVersion
from workflows.engine.values.bounded_json import digest
from workflows.models import IdempotencyKey

from . import access

if TYPE_CHECKING:
    from django.contrib.auth.models import User

RETENTION = timedelta(hours=24)
#: Exceptions after which the transaction commits, to keep the log entry of the refusal.
_LOGGED_REFUSALS: list[type[Exception]] = [Refused, StaleVersion]


class KeyReused(Exception):
    """The key was used before with another body."""


#: Runs the named part of a request once, and returns its text.
Part = Callable[[str, Callable[[], str]], str]


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response: status, JSON text of the body, and the URL of a created resource.

    `secrets` are further fields of the body, which are stored encrypted.
    """

    status: int
    text: str
    location: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict)
    #: Store the whole body encrypted: it has values that other responses mask.
    is_private: bool = False
    replayed: bool = False


def keep_refusal_logs(*exceptions: type[Exception]) -> None:
    """Commit log entries when a request ends with one of these exceptions.

    The use cases that raise them have undone their work and logged the refusal.  Auditors have to
    see the entry also if the request had an idempotency key.
    """
    _LOGGED_REFUSALS.extend(exceptions)


def respond_once(
    *, user: User, key: str, route: str, body: Any, perform: Callable[[], StoredResponse]
) -> StoredResponse:
    """Return `perform()` for a new (user, key, route), and the stored response for 24 hours after.

    Another token of the same user does not get the response, because it may not have the rights
    to see it.

    An exception of `perform` is not stored, so the request can be repeated.  Raises KeyReused if
    `body` differs from the first one, and DecryptionFailed if the response had a secret and
    SECRET_KEY was changed without keeping the old one.
    """
    body_digest = digest(body)
    with transaction.atomic():
        lookup = {"user": user, "credential": _credential(user), "key": key, "route": route}
        IdempotencyKey.objects.filter(**lookup, created_at__lt=Now() - RETENTION).delete()
        # A concurrent repetition waits here, at the unique constraint, for the first to commit.
        row, is_new = IdempotencyKey.objects.get_or_create(
            **lookup, defaults={"body_digest": body_digest}
        )
        if not is_new:
            return _stored(row, body_digest)
        try:
            response = perform()
        except tuple(_LOGGED_REFUSALS) as error:
            row.delete()
            refusal: Exception = error
        else:
            _store(row, response)
            return response
    raise refusal


def respond_in_parts(
    *, user: User, key: str, route: str, body: Any, perform: Callable[[Part], StoredResponse]
) -> StoredResponse:
    """Like `respond_once`, for a request that consists of several transactions.

    `perform` gets a function that runs a named part, or returns the stored text of a part that
    ran before.  A request that is repeated after a crash runs only the parts that are left.
    """
    body_digest = digest(body)
    lookup = {"user": user, "credential": _credential(user), "key": key, "route": route}
    IdempotencyKey.objects.filter(**lookup, created_at__lt=Now() - RETENTION).delete()
    row, _ = IdempotencyKey.objects.get_or_create(**lookup, defaults={"body_digest": body_digest})
    if row.answer is not None or row.body_digest != body_digest:
        return _stored(row, body_digest)

    def part(name: str, do: Callable[[], str]) -> str:
        request = {"user": user, "key": key, "route": f"{route}#{name}", "body": body}
        return respond_once(**request, perform=lambda: StoredResponse(200, do())).text

    response = perform(part)
    _store(row, response)
    return response


def _credential(user: User) -> str:
    """Return "" for a session, else a digest of the token with its present limits."""
    token = access.credential_of(user)
    if token is None:
        return ""
    only = access.allowed_workflow_ids(user)
    return digest([token.token_id, None if only is None else sorted(only), sorted(token.scopes)])


def _stored(row: IdempotencyKey, body_digest: str) -> StoredResponse:
    if row.body_digest != body_digest:
        raise KeyReused
    fields = row.answer or {}
    sealed, sealed_text = fields.get("sealed"), fields.get("sealed_text")
    return StoredResponse(
        status=row.status or 200,
        text=decrypt(sealed_text) if sealed_text else fields["text"],
        location=fields["location"],
        secrets=json.loads(decrypt(sealed)) if sealed else {},
        replayed=True,
    )


def _store(row: IdempotencyKey, response: StoredResponse) -> None:
    row.status = response.status
    # The body is a JSON string, because jsonb would change the order of keys and the numbers.
    private = response.is_private
    text = {"sealed_text": encrypt(response.text)} if private else {"text": response.text}
    row.answer = {**text, "location": response.location}
    if response.secrets:
        row.answer["sealed"] = encrypt(json.dumps(dict(response.secrets)))
    row.save(update_fields=["status", "answer"])


def forget_old() -> int:
    """Delete responses older than 24 hours, and return how many.  The sweeper calls this."""
    old: QuerySet[IdempotencyKey] = IdempotencyKey.objects.filter(created_at__lt=Now() - RETENTION)
    return old.delete()[0]


def json_text(value: Any) -> str:
    """Return JSON text of a response body, with the keys in their order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
