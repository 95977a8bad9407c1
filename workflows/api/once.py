"""`Idempotency-Key` at the door."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from rest_framework.request import Request
from rest_framework.response import Response

from workflows import idempotency
from workflows.engine.structure import Problem
from workflows.idempotency import Answer
from workflows.services import InvalidRequest

from .permissions import caller
from .problems import IdempotencyMismatch

_KEY = re.compile(r"[!-~]{1,200}")


def once(request: Request, perform: Callable[[], Answer]) -> Response:
    """The answer of `perform`, or of the first request with the same key, path and body."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return _response(perform())
    if not _KEY.fullmatch(key):
        message = "must be 1 to 200 printable ASCII characters without spaces"
        raise InvalidRequest((Problem("Idempotency-Key", "malformed", message),))
    try:
        answer = idempotency.answer_once(
            user=caller(request),
            key=key,
            route=f"{request.method} {request.path}",
            body=request.data,
            perform=perform,
        )
    except idempotency.KeyReused as error:
        raise IdempotencyMismatch from error
    return _response(answer)


def _response(answer: Answer) -> Response:
    headers = {"Location": answer.location} if answer.location else {}
    if answer.replayed:
        headers["Idempotent-Replayed"] = "true"
    return Response(json.loads(answer.text), status=answer.status, headers=headers)
