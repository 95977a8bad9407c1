"""The `Idempotency-Key` header."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from workflows.common.secret_encryption import DecryptionFailed
from workflows.engine.plans.validation import Problem
from workflows.executions import idempotency
from workflows.executions.idempotency import Part, StoredResponse
from workflows.executions.validation import InvalidRequest

from .permission_classes import caller
from .problems import IdempotencyMismatch, register

register(DecryptionFailed, status=409, code="refused")

_KEY = re.compile(r"[!-~]{1,200}")


def idempotent(request: Request, perform: Callable[[], StoredResponse]) -> Response:
    """Return the response of `perform`, or of the first equal request with the same key."""
    key = idempotency_key(request)
    if key is None:
        return _response(perform())
    try:
        answer = idempotency.respond_once(**_identity(request, key), perform=perform)
    except idempotency.KeyReused as error:
        raise IdempotencyMismatch from error
    return _response(answer)


def idempotent_in_parts(request: Request, perform: Callable[[Part], StoredResponse]) -> Response:
    """Like `idempotent`, for work in several transactions: see `idempotency.respond_in_parts`."""
    key = idempotency_key(request)
    if key is None:
        return _response(perform(lambda _, do: do()))
    try:
        answer = idempotency.respond_in_parts(**_identity(request, key), perform=perform)
    except idempotency.KeyReused as error:
        raise IdempotencyMismatch from error
    return _response(answer)


def _identity(request: Request, key: str) -> dict[str, Any]:
    route = f"{request.method} {request.path}"
    return {"user": caller(request), "key": key, "route": route, "body": request.data}


def idempotency_key(request: Request) -> str | None:
    """Return the key of the request or None; raise InvalidRequest for a malformed key."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and not _KEY.fullmatch(key):
        message = "must be 1 to 200 printable ASCII characters without spaces"
        raise InvalidRequest((Problem("Idempotency-Key", "malformed", message),))
    return key


def _response(answer: StoredResponse) -> Response:
    headers = {"Location": answer.location} if answer.location else {}
    if answer.replayed:
        headers["Idempotent-Replayed"] = "true"
    if answer.secrets:
        headers["Cache-Control"] = "no-store"
    body = json.loads(answer.text)
    body = {**body, **answer.secrets} if answer.secrets else body
    return Response(body, status=answer.status, headers=headers)
